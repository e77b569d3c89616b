package engine

import (
	"fmt"
	"unsafe"

	"github.com/lowpack/lowpack/internal/offheap"
	"github.com/lowpack/lowpack/pack"
)

// states is the memory of recurrent states (RECURRENT N60). A slot holds the states of all recurrent layers after some
// token. Every open sequence has one, which a pass changes in place, and stands behind its first Sequence.done tokens.
// The other slots are snapshots: a page of the KV cache may have the state after some of its tokens, and whoever shares
// the page shares the snapshot. Where a sequence has to go back, or a pass has failed, the latest snapshot before that
// point becomes its state, and the next pass computes the tokens after it once more: the same bits (N3), so snapshots
// decide how long that takes and nothing else.
type states struct {
	memory []float32
	size   int      // values of a slot; 0 = the model has no recurrent layers
	layers []int    // where the state of each layer starts in a slot
	live   []int32  // users per slot: sequences, and snapshots of a running pass
	marks  []int32  // users per slot: pages
	used   []uint64 // per slot: clock at its last use
	clock  uint64
	pages  []mark // by page
}

// mark is the snapshot of a page: the state after its first tokens.
type mark struct {
	slot   int32
	tokens int // 0 = none
}

// noSlot stands for the state before the first token: zeros.
const noSlot = -1

// snapshotsPerSequence is the number of snapshots per sequence: the start of a draft, the last full page, and two for
// texts that a prefix cache keeps.
const snapshotsPerSequence = 4

// slots is the number of slots of a state.
func (e *Engine) slots() int {
	if e.opt.OnePass { // nothing goes back
		return e.opt.Sequences
	}
	return e.opt.Sequences * (1 + snapshotsPerSequence)
}

// stateBytes is the memory of all slots.
func (e *Engine) stateBytes() float64 { return float64(e.slots()) * float64(e.desc.StateBytes()) }

// newStates allocates the slots.
func (e *Engine) newStates() error {
	s, n, size := &e.states, e.slots(), int(e.desc.StateBytes())
	if size == 0 {
		return nil
	}
	memory, err := offheap.New(n * size)
	if err != nil {
		return fmt.Errorf("%w: recurrent states: %v", pack.ErrLimit, err)
	}
	e.close = append(e.close, memory.Free)
	pages := len(e.pages.users)
	*s = states{
		memory: unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(memory.Bytes))), n*size/4), size: size / 4,
		live: make([]int32, n), marks: make([]int32, n), used: make([]uint64, n),
		pages: make([]mark, pages),
	}
	at := 0
	for i := range e.desc.Blocks {
		s.layers = append(s.layers, at)
		if m := e.desc.Blocks[i].Mixer; m != nil {
			at += m.State()
		}
	}
	return nil
}

// of returns the state of a layer in a slot.
func (s *states) of(slot int32, layer int) []float32 {
	end := s.size
	if layer+1 < len(s.layers) {
		end = s.layers[layer+1]
	}
	return s.memory[int(slot)*s.size:][s.layers[layer]:end]
}

// take gets a slot for a sequence or a pass: a free one, or else that of the least recently used snapshot. ok is false
// if all are in use by sequences.
func (s *states) take() (slot int32, ok bool) {
	slot = noSlot
	for i := range s.live {
		switch {
		case s.live[i] > 0:
		case s.marks[i] == 0:
			s.live[i] = 1
			return int32(i), true
		case slot == noSlot || s.used[i] < s.used[slot]:
			slot = int32(i)
		}
	}
	if slot == noSlot {
		return slot, false
	}
	for page := range s.pages {
		if m := s.pages[page]; m.tokens > 0 && m.slot == slot {
			s.unmark(int32(page))
		}
	}
	s.live[slot] = 1
	return slot, true
}

// drop removes a user other than a page from a slot.
func (s *states) drop(slot int32) {
	if slot != noSlot {
		s.live[slot]--
	}
}

// mark makes a slot the snapshot of a page after its first tokens.
func (s *states) mark(page, slot int32, tokens int) {
	s.unmark(page)
	s.pages[page] = mark{slot, tokens}
	s.marks[slot]++
	s.touch(slot)
}

// unmark removes the snapshot of a page, if it has one.
func (s *states) unmark(page int32) {
	if s.size == 0 || s.pages[page].tokens == 0 {
		return
	}
	s.marks[s.pages[page].slot]--
	s.pages[page] = mark{}
}

func (s *states) touch(slot int32) {
	s.clock++
	s.used[slot] = s.clock
}

// copyPage gives a copy of a page its tokens, and its snapshot and its anchor if these are of its first tokens.
func (e *Engine) copyPage(to, from int32, tokens int) {
	n := e.pages.stride
	if e.device != nil {
		e.device.copyPage(to, from)
		e.ledger.copy(to, from, tokens)
		n = e.device.host
	}
	copy(e.pages.bytes(to)[:n], e.pages.bytes(from))
	if e.repeats() {
		e.pages.copyIDs(to, from)
	}
	if e.windowed() {
		e.windows.copyAnchor(to, from, tokens)
	}
	s := &e.states
	if s.size == 0 {
		return
	}
	if m := s.pages[from]; m.tokens > 0 && m.tokens <= tokens {
		s.mark(to, m.slot, m.tokens)
	}
}

// latest returns the last position up to n after which one of the pages has a snapshot, and its slot; 0 and noSlot if
// none has.
func (e *Engine) latest(pages []int32, n int) (position int, slot int32) {
	for i := min(len(pages), e.pagesFor(n)) - 1; i >= 0; i-- {
		if m := e.states.pages[pages[i]]; m.tokens > 0 && i*e.page()+m.tokens <= n {
			return i*e.page() + m.tokens, m.slot
		}
	}
	return 0, noSlot
}
