# snapshot.py ENDPOINT CACHE ID REVISION online|offline: the snapshot folder that huggingface_hub gives, downloaded or found.
import os
import sys

endpoint, cache, name, revision, mode = sys.argv[1:]
os.environ["HF_HUB_OFFLINE"] = "1" if mode == "offline" else "0"
os.environ["HF_ENDPOINT"] = endpoint
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
os.environ["HF_HUB_DISABLE_UPDATE_CHECK"] = "1"

from huggingface_hub import snapshot_download

print(snapshot_download(name, revision=revision, cache_dir=cache, allow_patterns=["*.json", "*.safetensors"]))
