package convert

import (
	"hash"
	"sync/atomic"

	"github.com/lowpack/lowpack/internal/sha256pair"
)

// chunk is a piece of a source file in memory. It goes back when all who use it are done.
type chunk struct {
	data []byte
	at   int64 // of data, counted over all source files
	home func(*chunk)
	uses atomic.Int32

	memory   []byte       // that data are a part of
	also     hash.Hash    // of the tensor that data belong to, if it is kept
	digested func() error // what comes after that; may be nil
}

// release ends one use.
func (c *chunk) release() {
	if c.uses.Add(-1) == 0 {
		c.also, c.digested = nil, nil
		c.home(c)
	}
}

// hashStream digests what is read of a source file, in order: the file, and with it each tensor that is kept.
type hashStream struct {
	hash    hash.Hash // nil: nobody asks for that of the file
	left    int64     // bytes of the file that are not digested
	end     func() error
	waiting []*chunk
	busy    bool
}

// openHash tells that chunks of a file will come; closeHash, that no more will.
func (c *workerPool) openHash()  { c.countHashes(1) }
func (c *workerPool) closeHash() { c.countHashes(-1) }

func (c *workerPool) countHashes(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open += n
	c.wake.Signal()
}

// addChunk takes the next chunk of a file.
func (c *workerPool) addChunk(s *hashStream, k *chunk) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.waiting = append(s.waiting, k)
	if len(s.waiting) == 1 && !s.busy {
		c.hashes = append(c.hashes, s)
		c.wake.Signal()
	}
}

// digest begins to digest the next chunk of a file or, as that takes hardly longer, of two. The lock is held.
func (c *workerPool) digest() func() {
	var hashes []*hashStream
	var chunks []*chunk
	for len(c.hashes) > 0 && len(hashes) < 2 {
		s := c.hashes[0]
		c.hashes = c.hashes[1:]
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
				c.hashes = append(c.hashes, s)
			}
		}
		c.wake.Signal()
		return err
	})
}

// digestChunks digests a chunk of each hash stream, two digests at a time.
func digestChunks(streams []*hashStream, chunks []*chunk) {
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

// digested tells those who wait for it, and gives the chunks back.
func digested(streams []*hashStream, chunks []*chunk) error {
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
