package batch

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strconv"
	"sync"

	"github.com/lowpack/lowpack/internal/atomicfile"
)

// journal keeps answers in a hidden file next to the output, in the order in which they come. It begins with a header;
// then every answer has a line: the number of its request, its kind, a CRC of these and of the text, and the text,
// which is its line of the output. What follows the first line that a crash has damaged is computed again.
type journal struct {
	target string
	file   *atomicfile.File

	mu       sync.Mutex
	end      int64
	at       []entry // by request
	progress Progress
}

// entry is the place of an answer in the journal.
type entry struct {
	offset int64 // 0 = there is none
	size   int64 // negative = of an answer with another status than 200
}

// journalVersion changes with the form of the journal or of results.
const journalVersion = 1

// header says which results a journal holds.
type header struct {
	Version int    `json:"lowpack_batch"`
	Input   digest `json:"input_sha256"`
	Key     string `json:"key"`
}

// Kinds of answers.
const (
	good = 'o'
	bad  = 'e'
)

// openJournal opens the journal of a target, with the answers that an interrupted run has left there.
func openJournal(target string, h header, requests int) (*journal, error) {
	f, err := atomicfile.Resume(atomicfile.OS, target)
	if err != nil {
		return nil, err
	}
	j := &journal{target: target, file: f, at: make([]entry, requests)}
	j.progress.Total = requests
	if err := j.restore(h); err != nil {
		f.Abort()
		return nil, err
	}
	return j, nil
}

// inputOf returns the digest of the input of the journal of a target; zero if there is none.
func inputOf(target string) (d digest) {
	f, err := os.Open(atomicfile.ResumePath(target))
	if err != nil {
		return d
	}
	defer f.Close()
	var h header
	if json.NewDecoder(f).Decode(&h) != nil {
		return d // restore says what is wrong
	}
	return h.Input
}

// restore reads the answers that are there and cuts off what is damaged.
func (j *journal) restore(h header) error {
	info, err := j.file.Stat()
	if err != nil {
		return atomicfile.Failed(err)
	}
	first, err := json.Marshal(h)
	if err != nil {
		return err
	}
	first = append(first, '\n')
	r := bufio.NewReaderSize(io.NewSectionReader(j.file, 0, info.Size()), 1<<16)
	there := make([]byte, min(int64(len(first)), info.Size()))
	if _, err := io.ReadFull(r, there); err != nil {
		return atomicfile.Failed(err)
	}
	switch {
	case bytes.Equal(there, first):
		j.end = int64(len(first))
		if err := j.read(r); err != nil {
			return atomicfile.Failed(err)
		}
	case !bytes.HasPrefix(first, there): // else nothing, or the start of the header
		return fmt.Errorf("%w; remove %s, or choose another output", ErrOtherRun, atomicfile.ResumePath(j.target))
	default:
		if _, err := j.file.WriteAt(first, 0); err != nil {
			return atomicfile.Failed(err)
		}
		j.end = int64(len(first))
	}
	return atomicfile.Failed(j.file.Truncate(j.end))
}

// read takes answers up to the first damaged one.
func (j *journal) read(r *bufio.Reader) error {
	for {
		line, err := r.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		n, kind, prefix, ok := parseRecord(line)
		if !ok || n >= len(j.at) || j.at[n].offset != 0 {
			return nil
		}
		j.place(n, kind, prefix, len(line))
	}
}

// place notes that the record of request n ends the journal.
func (j *journal) place(n int, kind byte, prefix, size int) {
	e := entry{j.end + int64(prefix), int64(size - prefix)}
	if j.progress.Completed++; kind == bad {
		j.progress.Completed--
		j.progress.Failed++
		e.size = -e.size
	}
	j.at[n] = e
	j.end += int64(size)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum covers the number and the kind of a record, and its text.
func checksum(n int, kind byte, text []byte) uint32 {
	return crc32.Update(crc32.Checksum(fmt.Appendf(nil, "%d %c", n, kind), castagnoli), castagnoli, text)
}

// record returns the journal's line for an answer. prefix is the number of bytes before the text.
func record(n int, kind byte, text []byte) (line []byte, prefix int) {
	line = fmt.Appendf(make([]byte, 0, len(text)+32), "%d %c %08x ", n, kind, checksum(n, kind, text))
	prefix = len(line)
	return append(append(line, text...), '\n'), prefix
}

// parseRecord checks a line of the journal.
func parseRecord(line []byte) (n int, kind byte, prefix int, ok bool) {
	number, rest, _ := bytes.Cut(line, []byte(" "))
	n, err := strconv.Atoi(string(number))
	if err != nil || n < 0 || len(rest) < 1 || rest[0] != good && rest[0] != bad {
		return 0, 0, 0, false
	}
	if prefix = len(number) + len(" o 01234567 "); prefix >= len(line) {
		return 0, 0, 0, false
	}
	own, _ := record(n, rest[0], line[prefix:len(line)-1])
	return n, rest[0], prefix, bytes.Equal(own, line)
}

// has reports whether request n is answered.
func (j *journal) has(n int) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.at[n].offset != 0
}

// add keeps the answer to request n and reports progress.
func (j *journal) add(n int, text []byte, a *Answer, progress func(Progress)) error {
	kind := byte(good)
	if a.Status != 200 {
		kind = bad
	}
	line, prefix := record(n, kind, text)
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := j.file.WriteAt(line, j.end); err != nil {
		return atomicfile.Failed(fmt.Errorf("write %s: %w", atomicfile.ResumePath(j.target), err))
	}
	j.place(n, kind, prefix, len(line))
	j.progress.PromptTokens += a.PromptTokens
	j.progress.Tokens += a.Tokens
	progress(j.progress)
	return nil
}

// finish writes the answers to their targets, in the order of the input, and removes the journal. After an interruption
// between the steps all of them are repeated.
func (j *journal) finish(output, errs string) error {
	var files []*atomicfile.File
	for _, t := range []struct {
		path string
		kind byte
	}{{errs, bad}, {output, good}} {
		f, err := j.write(t.path, t.kind)
		if err != nil {
			return err
		}
		defer f.Abort()
		files = append(files, f)
	}
	for _, f := range files {
		if err := f.Commit(); err != nil {
			return err
		}
	}
	return atomicfile.Failed(atomicfile.OS.Remove(atomicfile.ResumePath(j.target))) // still locked
}

// write writes all answers of a kind to a file that is not yet in its place.
func (j *journal) write(path string, kind byte) (*atomicfile.File, error) {
	f, err := atomicfile.Create(atomicfile.OS, path)
	if err != nil {
		return nil, err
	}
	w := newResultFile(path, io.NewOffsetWriter(f, 0))
	for _, e := range j.at {
		if e.size == 0 || (e.size < 0) != (kind == bad) { // not answered, or for the other file
			continue
		}
		line := make([]byte, max(e.size, -e.size))
		if _, err = j.file.ReadAt(line, e.offset); err != nil {
			break
		}
		if err = w.add(line); err != nil {
			break
		}
	}
	if err = errors.Join(err, w.close()); err != nil {
		f.Abort()
		return nil, atomicfile.Failed(fmt.Errorf("write %s: %w", path, err))
	}
	return f, nil
}

// close ends the use of the journal, which stays for another run.
func (j *journal) close() { j.file.Abort() }
