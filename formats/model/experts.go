package model

import (
	"fmt"
	"strings"
)

// Experts are the expert MLPs of a block; a router chooses some of them for each token (NUMERICS N35, N36). Gate, Up
// and Down of the block itself, if present, are a shared expert unless BesideMLP is set.
type Experts struct {
	Count, Chosen int    // number of experts, and number chosen per token
	Router        string // [Count, Hidden]
	RouterBias    string // [Count]; "" = none
	Routing
	ChoiceBias     string // [Count]: added to the scores for the choice, not to the weights; "" = none
	Gate, Up, Down Linear // Count matrices each
	// [1, Hidden]: the sigmoid of its product weights the shared expert (Qwen2-MoE); "" = it is added as it is
	SharedGate string
	BesideMLP  *BesideMLP // nil = the MLP of the block, if it has one, is a shared expert
}

// BesideMLP is what experts beside the MLP of a block, which reads FFNNorm, have of their own (NUMERICS N78).
type BesideMLP struct {
	Norm       Norm   // of what the experts read
	RouterNorm Norm   // of what the router reads
	OutNorm    Norm   // of the sum of the experts' outputs
	MLPNorm    Norm   // of the output of the MLP
	Scales     string // [Count]: the weights of the experts are multiplied by them
}

func (x *BesideMLP) norms() []*Norm { return []*Norm{&x.RouterNorm, &x.Norm, &x.OutNorm, &x.MLPNorm} }

// Routing says how the choice of experts and their weights follow from the products of the router (NUMERICS N35, N50).
// The zero value is a softmax over all experts.
type Routing struct {
	Score     Score // of an expert
	Normalize bool  // the weights of the chosen experts sum to 1
	// With Normalize the divisor is the sum of the scores plus Epsilon, and at least Least; 0 = neither.
	Epsilon, Least float32
	Scale          float32 // 0 = none; the weights are multiplied by it
	Inputs         bool    // the weights multiply the inputs of experts, not their outputs (Llama 4, NUMERICS N66)
	Distance       float32 // of SparseMixer: how far from the largest product others may be, relatively
	// Experts are chosen from the KeptGroups best of Groups groups of the same size. The value of a group is the sum of
	// its GroupTop largest members, 1 or 2. Groups of 0: no groups.
	Groups, KeptGroups, GroupTop int
	// BiasRow says that ChoiceBias has the shape [1, Count] (ERNIE 4.5).
	BiasRow bool
}

// Score turns the products of a router into scores.
type Score string

// The scores.
const (
	Softmax Score = "" // over all experts, or over the chosen ones with Normalize
	Sigmoid Score = "sigmoid"
	// Two experts: the largest product, and the largest of the others. The weight of each is its share of a softmax
	// over those products that are near it (Phi-3.5-MoE, NUMERICS N52).
	SparseMixer Score = "sparse_mixer"
)

// Of returns the name of the tensor with the matrix of one expert, "" if the checkpoint has none.
func (l *Linear) Of(expert int) string { return expertName(l.Each, expert) }

// expertName inserts an expert number into a pattern.
func expertName(each string, expert int) string {
	return strings.Replace(each, "*", fmt.Sprint(expert), 1)
}
