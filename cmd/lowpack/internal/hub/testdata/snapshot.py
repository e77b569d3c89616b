# snapshot.py ENDPOINT CACHE ID REVISION online|offline|shared: the snapshot folder that huggingface_hub gives, downloaded or found;
# "shared" moves its large files to the blobs that all models of the cache share, as downloads from Xet do.
import os
import sys

endpoint, cache, name, revision, mode = sys.argv[1:]
os.environ["HF_HUB_OFFLINE"] = "1" if mode == "offline" else "0"
os.environ["HF_ENDPOINT"] = endpoint
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
os.environ["HF_HUB_DISABLE_UPDATE_CHECK"] = "1"

from huggingface_hub import snapshot_download

folder = snapshot_download(name, revision=revision, cache_dir=cache, allow_patterns=["*.json", "*.safetensors"])
if mode == "shared":
    from huggingface_hub.utils._shared_blobs import publish_blob_to_shared_store

    blobs = os.path.join(os.path.dirname(os.path.dirname(folder)), "blobs")
    for digest in os.listdir(blobs):
        path = os.path.join(blobs, digest)
        if len(digest) == 64:
            assert publish_blob_to_shared_store(blob_path=path, xet_hash=digest, cache_dir=cache, expected_size=os.path.getsize(path))
            assert os.path.islink(path)
print(folder)
