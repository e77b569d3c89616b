package mmap

import (
	"cmp"
	"os"
	"slices"
	"sync"
	"unsafe"
)

const (
	// aheadPiece is what one call reads. It must take long compared with the wait of a goroutine for a processor, of up
	// to 10 ms while others compute, and short enough for Close to wait for it.
	aheadPiece = 32 << 20
	// aheadReaders read at once, so that the disk has work while one of them waits for a processor.
	aheadReaders = 2
)

// Ahead reads parts of mapped files into the page cache in the background, in the order in which they will be used, and
// maps their pages. It stays at most a window of bytes ahead of the use, so files that are larger than memory do not
// push out what was read for later, and leaves out what has been used without it.
type Ahead struct {
	window int
	pieces []piece
	starts []int // bytes of all stages before a stage, and of all
	read   func([]byte) error
	begin  func()

	mu      sync.Mutex
	moved   sync.Cond
	next    int // piece
	reached int // bytes of all stages that were used
	readers sync.WaitGroup
}

// piece is a range of one file that is read by one call.
type piece struct {
	data []byte
	at   int // bytes of all pieces before it
}

func (p piece) end() int { return p.at + len(p.data) }

// ReadAhead starts to read the parts of each stage. Parts that are not in a mapped file are left out; all others are
// used whole, so that they also have the advice of ReadHuge. The files must stay mapped until Close. begin, if not nil,
// is called in each goroutine that reads: pages come into the memory of the NUMA node that it runs on.
func ReadAhead(stages [][][]byte, window int, begin func()) *Ahead {
	a := newAhead(stages, window, populate)
	a.begin = begin
	for _, p := range a.pieces {
		ReadHuge(p.data)
	}
	a.start()
	return a
}

func newAhead(stages [][][]byte, window int, read func([]byte) error) *Ahead {
	a := &Ahead{window: window, read: read}
	a.moved.L = &a.mu
	at := 0
	for _, parts := range stages {
		a.starts = append(a.starts, at)
		for _, r := range joined(parts) {
			for data := range slices.Chunk(r, aheadPiece) {
				a.pieces = append(a.pieces, piece{data, at})
				at += len(data)
			}
		}
	}
	a.starts = append(a.starts, at)
	return a
}

// joined returns the pages of parts of mapped files in the order of their addresses, parts on adjacent pages as one.
func joined(parts [][]byte) (list [][]byte) {
	for _, p := range parts {
		if len(p) > 0 && isMapped(p) {
			list = append(list, pages(p))
		}
	}
	slices.SortFunc(list, func(a, b []byte) int { return cmp.Compare(address(a), address(b)) })
	n := 0
	for _, p := range list {
		if n > 0 && address(p) <= address(list[n-1])+uintptr(len(list[n-1])) {
			last := list[n-1]
			length := max(len(last), int(address(p)-address(last))+len(p))
			list[n-1] = unsafe.Slice(unsafe.SliceData(last), length)
			continue
		}
		list[n], n = p, n+1
	}
	return list[:n]
}

// pages returns b with the start of the page that it begins on, whose address system calls ask for.
func pages(b []byte) []byte {
	before := int(address(b)) & (os.Getpagesize() - 1)
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), -before)), before+len(b))
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

func isMapped(b []byte) bool {
	mu.RLock()
	defer mu.RUnlock()
	return slices.ContainsFunc(open, func(r region) bool { return r.start <= address(b) && address(b) < r.end })
}

func (a *Ahead) start() {
	for range min(aheadReaders, len(a.pieces)) {
		a.readers.Go(func() {
			if a.begin != nil {
				a.begin()
			}
			for data := a.take(); data != nil; data = a.take() {
				if a.read(data) != nil { // who uses the data will be told
					a.skip(a.starts[len(a.starts)-1])
				}
			}
		})
	}
}

// take waits for the window to reach the end of the next piece that is still to be used, and returns it; nil = there is
// none.
func (a *Ahead) take() []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	for ; a.next < len(a.pieces); a.moved.Wait() {
		for a.next < len(a.pieces) && a.pieces[a.next].end() <= a.reached {
			a.next++
		}
		if a.next < len(a.pieces) && a.pieces[a.next].end() <= a.reached+a.window {
			a.next++
			return a.pieces[a.next-1].data
		}
		if a.next == len(a.pieces) {
			break
		}
	}
	return nil
}

// Reach says that all stages before one have been used. Nothing is read of them from now on.
func (a *Ahead) Reach(stage int) { a.skip(a.starts[stage]) }

func (a *Ahead) skip(to int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reached = max(a.reached, to)
	a.moved.Broadcast()
}

// Close reads nothing more and waits for what is being read.
func (a *Ahead) Close() {
	a.skip(a.starts[len(a.starts)-1])
	a.readers.Wait()
}
