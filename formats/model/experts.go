package model

import (
	"fmt"
	"strings"
)

// Experts are the MLPs of a block, of which a router chooses some for each token (NUMERICS N35, N36). The block's own
// Gate, Up and Down, if it has them, are those of an expert that all tokens share.
type Experts struct {
	Count, Chosen  int    // experts, and how many of them compute for a token
	Router         string // [Count, Hidden]
	RouterBias     string // [Count]; "" = none
	Normalize      bool   // the weights of those that are chosen sum to 1; otherwise those of all do
	Gate, Up, Down Linear // of Count matrices each
	// [1, Hidden]: the sigmoid of its product weights the shared expert (Qwen2-MoE); "" = there is none
	SharedGate string
}

// Of is the name of the tensor that holds the matrix of an expert alone, "" where checkpoints have none.
func (l *Linear) Of(expert int) string { return expertName(l.Each, expert) }

// expertName puts a number into a pattern.
func expertName(each string, expert int) string {
	return strings.Replace(each, "*", fmt.Sprint(expert), 1)
}
