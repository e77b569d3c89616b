"""Prints the classes of characters as the tokenizers library has them, one a line: a name and ranges of code points in
hexadecimal. Its regular expressions, its other pre-tokenizers and Rust's own tables are of different versions of Unicode.

Arguments: names of scripts.
"""
import sys

from tokenizers import Regex, normalizers, pre_tokenizers

every = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def show(name, chars):
    ranges = []
    for c in sorted(map(ord, chars)):
        if ranges and ranges[-1][1] == c - 1:
            ranges[-1][1] = c
        else:
            ranges.append([c, c])
    print(name, *("%x-%x" % (a, b) if a < b else "%x" % a for a, b in ranges))


def matches(regex, text):
    """The characters that a class of a regular expression has."""
    split = pre_tokenizers.Split(Regex("[" + regex + "]+"), "removed", invert=True)
    return "".join(piece for piece, _ in split.pre_tokenize_str(text))


def dropped(pre_tokenizer):
    """The characters that a pre-tokenizer removes."""
    kept = {c for piece, _ in pre_tokenizer.pre_tokenize_str("".join(every)) for c in piece}
    return [c for c in every if c not in kept]


def joined(pre_tokenizer):
    """The characters that stay in one piece with a letter in front of them, which spaces set apart."""
    text = " ".join("a" + c for c in every)
    return [piece[1] for piece, _ in pre_tokenizer.pre_tokenize_str(text) if len(piece) == 2 and piece[0] == "a"]


print("# by testdata/classes.py")
categories = "L Lu Ll Lt Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So Z Zs Zl Zp C Cc Cf Co Cn".split()
for category in categories:
    show("\\p{%s}" % category, matches("\\p{%s}" % category, "".join(every)))
assigned = matches("^\\p{Cn}\\p{Co}", "".join(every))
for script in sys.argv[1:]:
    try:
        show("\\p{%s}" % script, matches("\\p{%s}" % script, assigned))
    except Exception:  # a script that it does not know
        pass
show("\\w", matches("\\w", assigned))
show("\\s", matches("\\s", assigned))
show("Whitespace", joined(pre_tokenizers.Whitespace()))
show("WhitespaceSplit", dropped(pre_tokenizers.WhitespaceSplit()))
show("Punctuation", dropped(pre_tokenizers.Punctuation("removed")))
letters = set(joined(pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Digits(False)])))
spaces = set(dropped(pre_tokenizers.WhitespaceSplit()))
show("Digits", [c for c in every if c not in letters and c not in spaces])
lower = normalizers.Lowercase()
pairs = [(c, lower.normalize_str(c)) for c in every]
print("Lowercase", *("%x=%x" % (ord(c), ord(l)) for c, l in pairs if l != c and len(l) == 1))
for form in ("NFC", "NFD", "NFKC", "NFKD"):
    normalizer = getattr(normalizers, form)()
    show(form, [c for c in every if normalizer.normalize_str(c) != c])
nfc, nfd = normalizers.NFC(), normalizers.NFD()
combining = set()
for c in every:
    d = nfd.normalize_str(c)
    if nfd.normalize_str("\u0345" + c) != "\u0345" + d or c == d and nfd.normalize_str(c + "\u0334") != c + "\u0334":
        combining.add(c)  # it is put in order
    if c != d and nfc.normalize_str(c) == c:
        combining.add(d[-1])
show("Combining", combining)
