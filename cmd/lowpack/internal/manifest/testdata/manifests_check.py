"""Manifests for Kubernetes against its schemas, unknown fields refused. argv: files. Prints the kinds, one a line."""
import sys

import kubernetes_validate
import yaml

for name in sys.argv[1:]:
    with open(name) as f:
        for document in yaml.safe_load_all(f):
            kubernetes_validate.validate(document, "1.37", strict=True)
            print(document["kind"])
