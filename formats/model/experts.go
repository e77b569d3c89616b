package model

import (
	"fmt"
	"strings"
)

// Experts are the expert MLPs of a block; a router chooses some of them for each token (NUMERICS N35, N36). Gate, Up
// and Down of the block itself, if present, are a shared expert.
type Experts struct {
	Count, Chosen  int    // number of experts, and number chosen per token
	Router         string // [Count, Hidden]
	RouterBias     string // [Count]; "" = none
	Normalize      bool   // the softmax is over the chosen experts; otherwise over all
	Gate, Up, Down Linear // Count matrices each
	// [1, Hidden]: the sigmoid of its product weights the shared expert (Qwen2-MoE); "" = none
	SharedGate string
}

// Of returns the name of the tensor with the matrix of one expert, "" if the checkpoint has none.
func (l *Linear) Of(expert int) string { return expertName(l.Each, expert) }

// expertName inserts an expert number into a pattern.
func expertName(each string, expert int) string {
	return strings.Replace(each, "*", fmt.Sprint(expert), 1)
}
