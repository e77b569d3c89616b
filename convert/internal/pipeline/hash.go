package pipeline

import (
	"hash"

	"github.com/lowpack/lowpack/internal/sha256pair"
)

// digest hashes a source file in order: the whole file, and with it each passthrough tensor.
type digest struct {
	hash    hash.Hash // nil: the file's digest is not wanted
	left    int64     // bytes of the file that are not digested
	end     func() error
	waiting []*chunk
	busy    bool
}

// openDigest announces chunks of a file; closeDigest reports that no more will come.
func (c *schedule) openDigest()  { c.countDigests(1) }
func (c *schedule) closeDigest() { c.countDigests(-1) }

func (c *schedule) countDigests(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open += n
	c.wake.Signal()
}

// addDigest enqueues the next chunk of a file.
func (c *schedule) addDigest(s *digest, k *chunk) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.waiting = append(s.waiting, k)
	if len(s.waiting) == 1 && !s.busy {
		c.digests = append(c.digests, s)
		c.wake.Signal()
	}
}

// digestNext begins to hash the next chunk of one file or, as that takes hardly longer, of two. The lock is held.
func (c *schedule) digestNext() func() {
	var hashes []*digest
	var chunks []*chunk
	for len(c.digests) > 0 && len(hashes) < 2 {
		s := c.digests[0]
		c.digests = c.digests[1:]
		hashes, chunks = append(hashes, s), append(chunks, s.waiting[0])
		s.busy, s.waiting = true, s.waiting[1:]
	}
	c.digesting++
	return c.begin(chunks[0].at, func() error {
		digestChunks(hashes, chunks)
		err := digested(hashes, chunks)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.digesting--
		for _, s := range hashes {
			s.busy = false
			if len(s.waiting) > 0 {
				c.digests = append(c.digests, s)
			}
		}
		c.wake.Signal()
		return err
	})
}

// digestChunks digests a chunk of each hash stream, two digests at a time.
func digestChunks(streams []*digest, chunks []*chunk) {
	var hashes []hash.Hash
	var data [][]byte
	for i, s := range streams {
		for _, h := range []hash.Hash{s.hash, chunks[i].also} {
			if h != nil {
				hashes, data = append(hashes, h), append(data, chunks[i].data)
			}
		}
	}
	i := 0
	for ; i+2 <= len(hashes); i += 2 {
		sha256pair.Write(hashes[i], data[i], hashes[i+1], data[i+1])
	}
	if i < len(hashes) {
		hashes[i].Write(data[i])
	}
}

// digested runs the callbacks of the chunks, and releases the chunks.
func digested(streams []*digest, chunks []*chunk) error {
	for i, s := range streams {
		k := chunks[i]
		if s.left -= int64(len(k.data)); s.hash != nil && s.left == 0 {
			if err := s.end(); err != nil {
				return err
			}
		}
		if k.digested != nil {
			if err := k.digested(); err != nil {
				return err
			}
		}
		k.release()
	}
	return nil
}
