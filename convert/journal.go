package convert

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/lowpack/lowpack/internal/atomicfile"
)

// journal notes what is complete in an unfinished file, one line of JSON each, so that an interrupted conversion can
// resume. Before a tensor is reused its bytes are compared with the noted digest; the digest of a source is valid while
// its size and modification time are unchanged. A torn last line is ignored.
type journal struct {
	fs   atomicfile.FS
	path string
	file atomicfile.Handle
	done map[string]note // of earlier runs, by kind and name

	mu  sync.Mutex
	end int64
}

// note is one line.
type note struct {
	Plan   string `json:"plan,omitempty"` // first line: identity of plan and sources
	Tensor string `json:"tensor,omitempty"`
	Source string `json:"source,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
	Codes  string `json:"codes_sha256,omitempty"`
}

// JournalPath returns the path of the journal that an interrupted conversion to a target leaves beside its data
// (Options.Resume).
func JournalPath(target string) string { return atomicfile.ResumePath(target) + ".journal" }

// openJournal reads the journal of a target. It starts a new one if the plan or the sources have changed.
func openJournal(fs atomicfile.FS, target, identity string) (*journal, error) {
	j := &journal{fs: fs, path: JournalPath(target), done: map[string]note{}}
	var err error
	if j.file, err = fs.Open(j.path); err != nil {
		return nil, atomicfile.Failed(err)
	}
	if err := j.read(identity); err != nil {
		return nil, errors.Join(err, j.file.Close())
	}
	return j, nil
}

// maxJournal bounds the size of a journal: a line takes some hundred bytes, at most three lines per tensor.
const maxJournal = 256 << 20

func (j *journal) read(identity string) error {
	text, err := io.ReadAll(io.NewSectionReader(j.file, 0, maxJournal))
	if err != nil {
		return fmt.Errorf("read %s: %w", j.path, err)
	}
	for {
		line, rest, ok := bytes.Cut(text, []byte("\n"))
		var n note
		if !ok || json.Unmarshal(line, &n) != nil {
			break
		}
		if j.end == 0 && n.Plan != identity {
			break
		}
		j.done[n.Tensor+"\n"+n.Source] = n
		j.end += int64(len(line)) + 1
		text = rest
	}
	if j.end > 0 {
		return j.file.Truncate(j.end)
	}
	if err := j.file.Truncate(0); err != nil {
		return err
	}
	return j.add(note{Plan: identity})
}

// tensor returns the note about a stored tensor.
func (j *journal) tensor(name string) (note, bool) {
	n, ok := j.done[name+"\n"]
	return n, ok
}

// source returns the note about a file of the checkpoint.
func (j *journal) source(name string) (note, bool) {
	n, ok := j.done["\n"+name]
	return n, ok
}

// add appends a line.
func (j *journal) add(n note) error {
	line, err := json.Marshal(n)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := j.file.WriteAt(append(line, '\n'), j.end); err != nil {
		return fmt.Errorf("write %s: %w", j.path, err)
	}
	j.end += int64(len(line)) + 1
	return nil
}

// remove deletes the journal of a finished file. A journal that cannot be deleted is useless but harmless, so that is
// no error.
func (j *journal) remove() {
	j.fs.Remove(j.path)
	j.file.Close()
}

// identity returns a digest of the plan, represented by header, and of the source files' sizes and modification times.
func (p *Plan) identity(header []byte) (string, error) {
	h := sha256.New()
	h.Write(header)
	root, err := os.Stat(p.path)
	if err != nil {
		return "", err
	}
	for _, s := range p.source.Sources() {
		info := root // a bare file is its own source
		if root.IsDir() {
			if info, err = os.Stat(filepath.Join(p.path, filepath.FromSlash(s.Name))); err != nil {
				return "", err
			}
		}
		fmt.Fprintf(h, "%q %d %d\n", s.Name, info.Size(), info.ModTime().UnixNano())
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
