package chat

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Limits of a history.
const (
	maxEntries = 1000
	maxEntry   = 16 << 10 // bytes; longer messages are not kept
	maxFile    = 16 << 20 // bytes that are read
)

// History holds the last messages, the newest last, in a file with one JSON string per line.
type History struct {
	path    string
	entries []string
}

// OpenHistory reads the history from a file, which need not exist. With path "" it is kept in memory only.
func OpenHistory(path string) (*History, error) {
	h := &History{path: path}
	if path == "" {
		return h, nil
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && (!info.Mode().IsRegular() || info.Size() > maxFile) {
		return h, nil
	}
	if err != nil {
		return h, err
	}
	text, err := os.ReadFile(path)
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 8*maxEntry)
	for lines.Scan() {
		var entry string
		if json.Unmarshal(lines.Bytes(), &entry) == nil { // skips foreign and truncated entries
			h.entries = append(h.entries, entry)
		}
	}
	h.entries = h.entries[max(0, len(h.entries)-maxEntries):]
	return h, err
}

// Add adds a message, unless it is empty, very long or equal to the last one.
func (h *History) Add(message string) {
	if strings.TrimSpace(message) == "" || len(message) > maxEntry ||
		len(h.entries) > 0 && h.entries[len(h.entries)-1] == message {
		return
	}
	h.entries = append(h.entries, message)
	h.entries = h.entries[max(0, len(h.entries)-maxEntries):]
}

// Save writes the file, which its owner alone can read.
func (h *History) Save() error {
	if h.path == "" || len(h.entries) == 0 {
		return nil
	}
	var b bytes.Buffer
	for _, entry := range h.entries {
		line, err := json.Marshal(entry)
		if err != nil {
			return err
		}
		b.Write(append(line, '\n'))
	}
	if err := os.MkdirAll(filepath.Dir(h.path), 0o700); err != nil {
		return err
	}
	return replace(h.path, b.Bytes())
}

// replace replaces a file such that its content is the old one or the new one at any time. Only its owner can read it,
// unlike the files of package atomicfile.
func replace(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".history-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// shown is a history as term.Terminal asks for it: from the newest on, each in one line. Editor adds whole messages
// itself.
type shown struct{ *History }

func (shown) Add(string) {}

func (s shown) Len() int { return len(s.entries) }

func (s shown) At(i int) string {
	return strings.Join(strings.Fields(s.entries[len(s.entries)-1-i]), " ")
}
