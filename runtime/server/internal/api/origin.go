package api

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	randv2 "math/rand/v2"
	"time"
)

// Origin provides what an answer has besides the output of the model: ids, the seed of a request without one, and the
// time. The zero value takes random ones and the clock; Derived returns one whose answers are a function of a key.
type Origin struct {
	derived bool
	key     [sha256.Size]byte
	time    time.Time // zero = unknown
}

// Derived returns an Origin that derives everything from a key, except the time: it is now, or unknown if now is zero.
func Derived(key [sha256.Size]byte, now time.Time) Origin {
	return Origin{derived: true, key: key, time: now}
}

// Derived reports whether the same key gives the same answer.
func (o Origin) Derived() bool { return o.derived }

// ID returns prefix followed by 96 bits in hex, random or derived from prefix and path.
func (o Origin) ID(prefix string, path ...int) string {
	var id [12]byte
	if !o.derived {
		rand.Read(id[:])
	} else {
		copy(id[:], o.derive(prefix, path...))
	}
	return prefix + hex.EncodeToString(id[:])
}

// Seed returns 53 bits, which are exact in JavaScript.
func (o Origin) Seed() uint64 {
	if !o.derived {
		return randv2.Uint64() >> 11
	}
	return binary.LittleEndian.Uint64(o.derive("seed")) >> 11
}

// Created returns the time of an answer in Unix seconds; 0 = unknown.
func (o Origin) Created() int64 {
	switch {
	case !o.derived:
		return time.Now().Unix()
	case o.time.IsZero():
		return 0
	}
	return o.time.Unix()
}

// derive hashes the key with a label.
func (o Origin) derive(label string, path ...int) []byte {
	text := append(o.key[:], label...)
	for _, n := range path {
		text = binary.LittleEndian.AppendUint64(append(text, '/'), uint64(n))
	}
	sum := sha256.Sum256(text)
	return sum[:]
}
