package draft

// automaton is the suffix automaton (Blumer et al. 1985) of a text that grows token by token, in constant amortized
// time. A state stands for the substrings that end at the same positions. The longest suffix of the text that also
// occurs earlier is the suffix link of the state of the whole text. A token adds at most two states and three
// transitions, less than 200 bytes.
type automaton struct {
	text  []int
	state []state
	edges []edge
	at    map[origin]int32 // index of an edge
	last  int32            // state of the whole text

	length int // of the longest suffix that occurred earlier
	end    int // of its last known earlier occurrence: text[end] followed it there
}

type state struct {
	length int // of its longest substring
	link   int32
	end    int   // of one of its occurrences; see refreshed
	out    int32 // its first edge
}

type edge struct {
	token    int
	to, next int32 // next is another edge of the same state
}

type origin struct {
	state int32
	token int
}

// none marks a missing state or edge.
const none = -1

// refreshed is the number of states, of ever shorter suffixes, whose end is updated to the current end of the text.
// States of shorter suffixes keep an earlier occurrence, which is also valid. Without a bound, a text that repeats one
// token would take quadratic time.
const refreshed = 32

func newAutomaton() *automaton {
	a := &automaton{at: map[origin]int32{}}
	a.newState(state{link: none, out: none})
	return a
}

func (a *automaton) newState(s state) int32 {
	a.state = append(a.state, s)
	return int32(len(a.state) - 1)
}

func (a *automaton) connect(from int32, token int, to int32) {
	a.at[origin{from, token}] = int32(len(a.edges))
	a.edges = append(a.edges, edge{token, to, a.state[from].out})
	a.state[from].out = int32(len(a.edges) - 1)
}

// add appends a token to the text.
func (a *automaton) add(token int) {
	a.text = append(a.text, token)
	now := a.newState(state{length: len(a.text), out: none})
	p := a.last
	for ; p != none; p = a.state[p].link {
		if e, ok := a.at[origin{p, token}]; ok {
			a.state[now].link = a.upTo(p, token, a.edges[e].to)
			break
		}
		a.connect(p, token, now)
	}
	a.last = now
	a.remember(a.state[now].link)
}

// upTo returns the state of the longest substring of p extended by token, an edge that leads to q: q itself, or a state
// split off it if q has longer substrings as well.
func (a *automaton) upTo(p int32, token int, q int32) int32 {
	length := a.state[p].length + 1
	if a.state[q].length == length {
		return q
	}
	short := a.newState(state{length: length, link: a.state[q].link, end: a.state[q].end, out: none})
	for e := a.state[q].out; e != none; e = a.edges[e].next {
		a.connect(short, a.edges[e].token, a.edges[e].to)
	}
	a.state[q].link = short
	for ; p != none; p = a.state[p].link {
		e, ok := a.at[origin{p, token}]
		if !ok || a.edges[e].to != q {
			break
		}
		a.edges[e].to = short
	}
	return short
}

// remember notes the longest suffix that occurred earlier, whose state is s, and that it occurs here.
func (a *automaton) remember(s int32) {
	a.length, a.end = a.state[s].length, a.state[s].end
	a.state[a.last].end = len(a.text)
	for range refreshed {
		if s <= 0 {
			return
		}
		a.state[s].end = len(a.text)
		s = a.state[s].link
	}
}

// after appends to dst the n tokens that follow position from of the text. Beyond the end, the text is assumed to
// continue periodically.
func (a *automaton) after(dst []int, from, n int) []int {
	period := len(a.text) - from
	for i := range n {
		token := a.text[from+i%period]
		if token < 0 { // a border
			break
		}
		dst = append(dst, token)
	}
	return dst
}
