package hostile

import (
	"archive/zip"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	shard1 = "model-00001-of-00002.safetensors"
	shard2 = "model-00002-of-00002.safetensors"
)

// named is the base model in two shards, the second one named as given in the index.
func named(name string) func(dir string) (string, error) {
	return func(dir string) (string, error) { return sharded(dir, shard1, name, func(map[string]string) {}) }
}

// mapped is the base model in two shards with a changed weight_map.
func mapped(edit func(weightMap map[string]string)) func(dir string) (string, error) {
	return func(dir string) (string, error) { return sharded(dir, shard1, shard2, edit) }
}

// instead is the base model with something else in the place of model.safetensors.
func instead(put func(path string) error) func(dir string) (string, error) {
	return func(dir string) (string, error) {
		if _, err := model(dir, map[string][]byte{"model.safetensors": nil}); err != nil {
			return "", err
		}
		return dir, put(filepath.Join(dir, "model.safetensors"))
	}
}

func directories() []Case {
	first := allNames()[0]
	cases := []Case{
		{ID: "D00a", Class: Accept, Note: "control: the base model", build: Base},
		{ID: "D00b", Class: Accept, Note: "control: two shards", build: mapped(func(map[string]string) {})},
		{ID: "D00c", Class: Accept, Note: "control: a snapshot of the download cache, links into ../../blobs",
			build: snapshot},
		{ID: "D01", Class: Path, Note: "the index names ../x.safetensors", build: named("../x.safetensors")},
		{ID: "D02", Class: Path, Note: "the index names an absolute path", build: named("/model.safetensors")},
		{ID: "D03", Class: Path, Note: "a shard is a symbolic link out of the directory", build: link},
		{ID: "D04a", Class: Path, Note: "the weights are a named pipe", build: instead(makePipe)},
		{ID: "D04b", Class: Path, Note: "the weights are a directory",
			build: instead(func(path string) error { return os.Mkdir(path, 0o755) })},
		{ID: "D04c", Class: Path, Note: "config.json is a named pipe", build: pipeConfig},
		{ID: "D05a", Class: Structure, Note: "the index maps one tensor to two shards", build: twice},
		{ID: "D05b", Class: Structure, Note: "a shard lacks a tensor of the index",
			build: mapped(func(m map[string]string) { m["model.extra.weight"] = shard1 })},
		{ID: "D05c", Class: Structure, Note: "a shard has a tensor that the index lacks",
			build: mapped(func(m map[string]string) { delete(m, first) })},
		{ID: "D05d", Class: Structure, Note: "a tensor is in the other shard",
			build: mapped(func(m map[string]string) { m[first] = shard2 })},
		{ID: "D05e", Class: Structure, Note: "a shard is missing",
			build: mapped(func(m map[string]string) { m["z"] = "model-00003-of-00003.safetensors" })},
		{ID: "D06a", Class: Path, Note: "the index names C:x.safetensors", build: named("C:x.safetensors")},
		{ID: "D06b", Class: Path, Note: `the index names a\b.safetensors`, build: named(`a\b.safetensors`)},
		{ID: "D06c", Class: Path, Note: "the index names NUL.safetensors", build: named("NUL.safetensors")},
		{ID: "D06d", Class: Path, Note: "the index names a file with a trailing dot",
			build: named("model.safetensors.")},
		{ID: "D06e", Class: Path, Note: "the index names a file of 5,000 characters",
			build: named(strings.Repeat("x", 4988) + ".safetensors")},
		{ID: "D07", Class: Accept, Note: "two shards that differ in case only: warned",
			build: func(dir string) (string, error) {
				return sharded(dir, "model-a.safetensors", "model-A.safetensors", func(map[string]string) {})
			}},
		{ID: "D08", Class: Unsupported, Note: "pickle only", build: func(dir string) (string, error) {
			return model(dir, map[string][]byte{"model.safetensors": nil, "pytorch_model.bin": torchZip()})
		}},
		{ID: "D09a", Class: Digest, Note: "the weights are replaced while they are read", build: Base,
			During: func(path string) error {
				other := filepath.Join(path, "other")
				if err := os.WriteFile(other, shard(allNames()), 0o644); err != nil {
					return err
				}
				return os.Rename(other, filepath.Join(path, "model.safetensors"))
			}},
		{ID: "D09b", Class: Digest, Note: "the weights are cut short while they are read", build: Base,
			During: func(path string) error {
				return os.Truncate(filepath.Join(path, "model.safetensors"), 4096)
			}},
		{ID: "D09c", Class: Digest, Note: "the weights are written to while they are read", build: Base,
			During: func(path string) error {
				return os.Chtimes(filepath.Join(path, "model.safetensors"), time.Time{}, time.Now().Add(time.Hour))
			}},
	}
	for i := range cases {
		cases[i].Group = Directory
	}
	return cases
}

// torchZip is the beginning of what torch.save writes: an archive with a pickle of that name in front.
func torchZip() []byte {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	f, err := w.CreateHeader(&zip.FileHeader{Name: "archive/data.pkl", Method: zip.Store})
	if err == nil {
		_, err = f.Write([]byte("\x80\x02}q\x00."))
	}
	if err = errors.Join(err, w.Close()); err != nil {
		panic(err) // nothing but memory is written
	}
	return b.Bytes()
}

// snapshot is the base model as the download cache keeps it: the files are blobs, their names are symbolic links.
func snapshot(dir string) (string, error) {
	entry := filepath.Join(dir, "models--x--y")
	blobs, rev := filepath.Join(entry, "blobs"), filepath.Join(entry, "snapshots", "0123456789abcdef")
	for _, d := range []string{blobs, rev} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return "", err
		}
	}
	if _, err := model(blobs, nil); err != nil {
		return "", err
	}
	files, err := os.ReadDir(blobs)
	if err != nil {
		return "", err
	}
	for _, f := range files {
		blob := strings.ReplaceAll(f.Name(), ".", "-")
		if err := os.Rename(filepath.Join(blobs, f.Name()), filepath.Join(blobs, blob)); err != nil {
			return "", err
		}
		if err := os.Symlink(filepath.Join("..", "..", "blobs", blob), filepath.Join(rev, f.Name())); err != nil {
			return "", err
		}
	}
	return rev, nil
}

// link is the base model whose weights lie in another directory, behind a symbolic link.
func link(dir string) (string, error) {
	inside, outside := filepath.Join(dir, "model"), filepath.Join(dir, "elsewhere")
	for _, d := range []string{inside, outside} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return "", err
		}
	}
	if _, err := model(inside, nil); err != nil {
		return "", err
	}
	if err := os.Rename(filepath.Join(inside, "model.safetensors"),
		filepath.Join(outside, "model.safetensors")); err != nil {
		return "", err
	}
	return inside, os.Symlink(filepath.Join("..", "elsewhere", "model.safetensors"),
		filepath.Join(inside, "model.safetensors"))
}

func pipeConfig(dir string) (string, error) {
	if _, err := model(dir, map[string][]byte{"config.json": nil}); err != nil {
		return "", err
	}
	return dir, makePipe(filepath.Join(dir, "config.json"))
}

// twice maps the first tensor to both shards: a key that occurs twice, which no encoder writes.
func twice(dir string) (string, error) {
	if _, err := sharded(dir, shard1, shard2, func(map[string]string) {}); err != nil {
		return "", err
	}
	index := filepath.Join(dir, indexName)
	text, err := os.ReadFile(index)
	if err != nil {
		return "", err
	}
	entry := `{"` + allNames()[0] + `":"` + shard2 + `",`
	text = []byte(strings.Replace(string(text), `"weight_map":{`, `"weight_map":`+entry, 1))
	return dir, os.WriteFile(index, text, 0o644)
}
