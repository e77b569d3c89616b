"""Prints true or false for each pair of a pattern and a name in a file of JSON: what fnmatch says, for TestInteropGlob."""
import fnmatch, json, sys, warnings

warnings.simplefilter("ignore")  # classes that a future version may read as nested ones
for pattern, name in json.load(open(sys.argv[1])):
    print(str(fnmatch.fnmatchcase(name, pattern)).lower())
