package engine

// snapshot is a state to be kept by a running pass: that after so many tokens of the sequence.
type snapshot struct {
	position int
	slot     int32
	shared   bool // for other sequences with the same start
}

// repeats reports whether tokens of a sequence may have to be computed once more: for a recurrent state, a sliding
// window, or other rotations.
func (e *Engine) repeats() bool { return e.desc.StateBytes() > 0 || e.windowed() || e.staged() }

// enter makes the state of a sequence one that a pass may change, and reserves slots for the snapshots of a chunk.
func (s *Sequence) enter(c *Chunk) {
	if !s.e.repeats() {
		return
	}
	s.computing = true
	for i, id := range c.Tokens {
		s.remember(s.Len()+i, id)
	}
	st := &s.e.states
	if st.size == 0 {
		return
	}
	if from := s.state; from == noSlot || st.live[from]+st.marks[from] > 1 {
		slot, _ := st.take() // sequences have fewer slots than there are
		to := st.memory[int(slot)*st.size:][:st.size]
		if from == noSlot {
			clear(to)
		} else {
			copy(to, st.memory[int(from)*st.size:])
		}
		st.drop(from)
		s.state = slot
	}
	s.reserve(c)
}

// remember stores the token at a position.
func (s *Sequence) remember(position, id int) {
	n := s.e.page()
	s.e.pages.ids[int(s.pages[position/n])*n+position%n] = int32(id)
}

// token returns the token at a position.
func (s *Sequence) token(position int) int {
	n := s.e.page()
	return int(s.e.pages.ids[int(s.pages[position/n])*n+position%n])
}

// reserve chooses the positions after which a chunk leaves snapshots: before a draft, or after the last page that it
// fills; and at the end of the tokens that the sequence is known to share with others.
func (s *Sequence) reserve(c *Chunk) {
	s.snapshots = s.snapshots[:0]
	if s.e.opt.OnePass {
		return
	}
	n, page := s.Len()+len(c.Tokens), s.e.page()
	last := n / page * page
	if draft := len(c.Logits)/s.e.desc.Vocab - 1; draft > 0 {
		last = n - draft
	}
	if s.common > s.Len() && s.common < last {
		s.keep(s.common, true)
	}
	if last > s.Len() {
		s.keep(last, last == s.common)
	}
}

func (s *Sequence) keep(position int, shared bool) {
	if slot, ok := s.e.states.take(); ok {
		s.snapshots = append(s.snapshots, snapshot{position, slot, shared})
	}
}

// leave ends what enter began. After a chunk that was appended its snapshots belong to the pages; after any other the
// state is that of the latest snapshot.
func (s *Sequence) leave() {
	st := &s.e.states
	if !s.computing {
		return
	}
	s.computing = false
	appended := s.appended
	s.appended = false
	if appended {
		s.done, s.rows = s.Len(), s.Len()
		s.letGo(0, s.e.kept(s.done))
	}
	for _, k := range s.snapshots {
		if st.drop(k.slot); appended {
			s.mark(k.position, k.slot, k.shared)
		}
	}
	s.snapshots = s.snapshots[:0]
	if !appended {
		s.rewind()
	}
}

// mark makes a slot the snapshot of the sequence after a position. It replaces the one before, unless that one is for
// others.
func (s *Sequence) mark(position int, slot int32, shared bool) {
	i, page := (position-1)/s.e.page(), s.e.page()
	if !shared {
		if at := s.marked; at != i && at < len(s.pages) && at >= 0 && s.e.pages.users[s.pages[at]] == 1 {
			s.e.states.unmark(s.pages[at])
		}
		s.marked = i
	}
	s.e.states.mark(s.pages[i], slot, position-i*page)
}

// markHere makes the state of the sequence the snapshot of its last page, if it stands behind all tokens.
func (s *Sequence) markHere(shared bool) {
	if s.e.states.size > 0 && s.Len() > 0 && s.done == s.Len() {
		s.mark(s.done, s.state, shared)
	}
}

// markNow is markHere for whoever is about to append tokens that may have to go.
func (s *Sequence) markNow() {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	s.markHere(false)
}

// behind is the number of tokens that are to be computed once more.
func (s *Sequence) behind() int {
	if !s.e.repeats() {
		return 0
	}
	return s.Len() - s.done
}

// rewind takes the state back to the latest snapshot, or the window to the latest anchor.
func (s *Sequence) rewind() {
	st := &s.e.states
	if st.size == 0 {
		s.done = min(s.done, s.Len())
		if s.e.windowed() {
			s.rewindWindow()
		}
		return
	}
	st.drop(s.state)
	if s.done, s.state = s.e.latest(s.pages, s.Len()); s.state != noSlot {
		st.live[s.state]++
		st.touch(s.state)
	}
}
