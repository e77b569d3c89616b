package tokenizer

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"github.com/lowpack/lowpack/pack"
)

// Limits of a vocabulary. The largest published ones hold 262,144 tokens of at most a few hundred bytes.
const (
	maxTokens     = 1 << 22
	maxTokenBytes = 1 << 16
	maxHoles      = 1 << 16 // ids without a token
)

// vocab is a two-way table between ids and the bytes of tokens. The bytes of all tokens are stored in one slice, and
// the hash table holds no pointers: loading 128,000 tokens creates no garbage.
type vocab struct {
	text  []byte
	spans []span // by id
	count int
	slots []slot // open addressing, a power of two; at most 5/8 full
	salt  [2]uint64
	// hidden holds the tokens that ordinary text never becomes, only added tokens.
	hidden map[string]int
}

// span of vocab.text; an id without a token has from == none.
type span struct{ from, to uint32 }

const none = ^uint32(0)

// slot of the hash table. A token of up to 11 bytes is stored in its slot, so that looking it up touches one cache
// line: the first 8 bytes in head, and in rest, from the low end, the next 3, the length, and id + 1 (32 bits, 0 is
// empty). The length of a longer token is stored as longToken, and its bytes in vocab.text are compared.
type slot struct{ head, rest uint64 }

const (
	inSlot    = 11
	longToken = 0xff
	keyBits   = 1<<32 - 1 // of rest
)

func newVocab(tokens, textBytes int) *vocab {
	return &vocab{
		text:  make([]byte, 0, textBytes),
		spans: make([]span, 0, tokens),
		salt:  [2]uint64{rand.Uint64(), rand.Uint64()},
	}
}

// add enters a token, which can be found after index.
func (v *vocab) add(token []byte, id int64) error {
	switch {
	case len(token) == 0:
		return fmt.Errorf("%w: token %d is empty", pack.ErrCorrupt, id)
	case len(token) > maxTokenBytes:
		return fmt.Errorf("%w: token %d has %d bytes, more than %d", pack.ErrLimit, id, len(token), maxTokenBytes)
	case v.count >= maxTokens || len(v.text)+len(token) > math.MaxInt32:
		return fmt.Errorf("%w: more than %d tokens, or more than 2 GiB of them", pack.ErrLimit, maxTokens)
	case id < 0 || id >= int64(v.count)+maxTokens:
		return fmt.Errorf("%w: token %.40q has the id %d", pack.ErrCorrupt, token, id)
	}
	for int64(len(v.spans)) <= id {
		v.spans = append(v.spans, span{none, none})
	}
	if v.spans[id].from != none {
		return fmt.Errorf("%w: the id %d belongs to %.40q and to %.40q", pack.ErrCorrupt, id, v.bytes(int(id)), token)
	}
	from := uint32(len(v.text))
	v.text = append(v.text, token...)
	v.spans[id] = span{from, uint32(len(v.text))}
	v.count++
	return nil
}

// addHidden adds a token that ordinary text never becomes.
func (v *vocab) addHidden(token []byte, id int64) error {
	if old, twice := v.hidden[string(token)]; twice {
		return fmt.Errorf("%w: token %.40q has the ids %d and %d", pack.ErrCorrupt, token, old, id)
	}
	if v.hidden == nil {
		v.hidden = map[string]int{}
	}
	v.hidden[string(token)] = int(id)
	return v.add(token, id)
}

// index builds the hash table of the tokens that are not hidden: all at once, so that it has the right size and the
// memory latency of several slots overlaps.
func (v *vocab) index() error {
	hidden := map[int]bool{}
	for _, id := range v.hidden {
		hidden[id] = true
	}
	v.slots = make([]slot, 1<<bits.Len(uint(max(v.count, 8)*8/5)))
	for id := range v.spans {
		token := v.bytes(id)
		if token == nil || hidden[id] {
			continue
		}
		old, free := lookup(v, token)
		if free < 0 {
			return fmt.Errorf("%w: token %.40q has the ids %d and %d", pack.ErrCorrupt, token, old, id)
		}
		head, rest := key(token)
		v.slots[free] = slot{head, rest | uint64(id+1)<<32}
	}
	return nil
}

// key of a token: head and the low half of rest of its slot.
func key[T string | []byte](token T) (head, rest uint64) {
	switch n := len(token); {
	case n >= 8:
		for i := range 8 {
			head |= uint64(token[i]) << (8 * i)
		}
		for i := 8; i < min(n, inSlot); i++ {
			rest |= uint64(token[i]) << (8 * (i - 8))
		}
		if n > inSlot {
			return head, rest | longToken<<24
		}
		return head, rest | uint64(n)<<24
	default:
		for i := range n {
			head |= uint64(token[i]) << (8 * i)
		}
		return head, uint64(n) << 24
	}
}

// place is the slot at which the search for a key starts. For long tokens it also hashes the bytes that the key omits.
func place[T string | []byte](v *vocab, token T, head, rest uint64) int {
	if len(token) > inSlot {
		for i := inSlot; i < len(token); i += 8 {
			var word uint64
			for j := i; j < min(i+8, len(token)); j++ {
				word = word<<8 | uint64(token[j])
			}
			head = mix(head^v.salt[0], word^uint64(len(token))^v.salt[1])
		}
	}
	return int(mix(head^v.salt[0], rest^v.salt[1])) & (len(v.slots) - 1)
}

// mix folds a 128-bit product (as wyhash does): with a secret salt, nobody can choose tokens that collide.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// lookup returns the id of a token, or the free slot where it would belong.
func lookup[T string | []byte](v *vocab, token T) (id, free int) {
	head, rest := key(token)
	for i := place(v, token, head, rest); ; i = (i + 1) & (len(v.slots) - 1) {
		s := v.slots[i]
		if s.rest>>32 == 0 {
			return -1, i
		}
		if s.head != head || s.rest&keyBits != rest {
			continue
		}
		id := int(s.rest>>32) - 1
		if len(token) <= inSlot || string(v.bytes(id)) == string(token) {
			return id, -1
		}
	}
}

// find returns the id of a token.
func (v *vocab) find(token []byte) (int, bool) {
	id, _ := lookup(v, token)
	return id, id >= 0
}

func (v *vocab) findString(token string) (int, bool) {
	id, _ := lookup(v, token)
	return id, id >= 0
}

// bytes returns the bytes of a token; nil for an id that has none.
func (v *vocab) bytes(id int) []byte {
	if uint(id) >= uint(len(v.spans)) || v.spans[id].from == none {
		return nil
	}
	s := v.spans[id]
	return v.text[s.from:s.to:s.to]
}

// size is the largest id + 1.
func (v *vocab) size() int { return len(v.spans) }

// checkDense rejects ids far beyond the number of tokens: they would make every table indexed by id arbitrarily large.
func (v *vocab) checkDense() error {
	if v.count == 0 {
		return fmt.Errorf("%w: the vocabulary is empty", pack.ErrCorrupt)
	}
	if holes := v.size() - v.count; holes > maxHoles {
		return fmt.Errorf("%w: %d tokens, but the largest id is %d", pack.ErrCorrupt, v.count, v.size()-1)
	}
	v.text, v.spans = slices.Clip(v.text), slices.Clip(v.spans)
	return nil
}

func (v *vocab) isHidden(token []byte) bool {
	_, ok := v.hidden[string(token)]
	return ok
}
