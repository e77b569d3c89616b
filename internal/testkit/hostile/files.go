package hostile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Files returns what testdata/hostile holds, by name: of every case that is small, the one file that is at fault, and a
// README that lists all cases. work is an empty directory for the cases to be built in.
func Files(work string) (map[string][]byte, error) {
	files := map[string][]byte{}
	var list strings.Builder
	list.WriteString(readme)
	for i, c := range Cases() {
		name, data, err := c.fault(filepath.Join(work, fmt.Sprint(i)))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.ID, err)
		}
		if name != "" {
			files[name] = data
			name = "[" + filepath.Base(name) + "](" + name + ")"
		}
		fmt.Fprintf(&list, "| %s | %s | %s | %s | %s |\n", c.ID, c.Group, strings.TrimSpace(string(c.Class)+" "+c.Rule),
			c.Note, name)
	}
	files["README.md"] = []byte(list.String())
	files[".gitattributes"] = []byte("* -text\n") // a changed line end is another file
	return files, nil
}

// fault builds a case in dir and returns the file that is at fault; no name if it is too large or no file.
func (c *Case) fault(dir string) (name string, data []byte, err error) {
	at := map[Group]struct{ folder, file, suffix string }{
		Container: {"safetensors", "model.safetensors", ".safetensors"},
		Directory: {"index", indexName, ".json"},
		Config:    {"config", "config.json", ".json"},
		Tokenizer: {"tokenizer", "tokenizer.json", ".json"},
		Packed:    {"packed", "model.safetensors", ".safetensors"},
	}[c.Group]
	if c.Big {
		return "", nil, nil
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", nil, err
	}
	if _, err := c.Build(dir); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return "", nil, err
	}
	path := filepath.Join(dir, at.file)
	if info, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return "", nil, nil
	}
	data, err = os.ReadFile(path)
	return at.folder + "/" + c.ID + at.suffix, data, err
}

const readme = `# Hostile files

One failure per file, written by the few lines of its case in internal/testkit/hostile (` +
	"`go generate ./internal/testkit/hostile`" + `). Tests
run every case through every command. What is accepted is as important as what is refused.

| Class | The program must |
|---|---|
| accept | read it |
| syntax, structure, path, digest | refuse it as corrupt |
| limit | refuse it as too large, before it costs memory or time |
| unsupported | refuse it and say what is not supported |

Files of config, tokenizer and index belong into the directory of a model of one BitNet block, which internal/testkit/hostile builds
around them. The rule of a packed file is the one of docs/FORMAT.md that it breaks. Cases without a file here are too large, or consist of links, pipes and directories: they are built when tested.

| ID | Reader | Class | What is wrong | File |
|---|---|---|---|---|
`
