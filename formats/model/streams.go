package model

// Streams are the residual streams of a model with alternating updates (AltUp, arXiv 2301.13310, STREAMS N68): each
// block computes one of them, and predicts and corrects all.
type Streams struct {
	Count  int
	Active int // the one that blocks compute
	// [Hidden, Hidden] for each of the others: make them of the embedding, and what is averaged at the end of them
	Into, From []string
}

// AltUp names the tensors of a block's predictions and corrections.
type AltUp struct {
	Norm    Norm   // of the input of the router
	Router  string // [Count, Hidden]
	Predict string // [Count², Count]
	Correct string // [Count, Count]
	Scale   string // [Hidden]: of the active stream that LayerInput reads; "" = none
}

// Laurel is a linear layer of low rank beside attention (STREAMS N69).
type Laurel struct {
	Left, Right Linear
	Norm        Norm
}

// LayerInputs are vectors that each token brings to each layer (STREAMS N70).
type LayerInputs struct {
	Size       int    // values per layer
	Rows       int    // of Embed; further tokens have the first
	Embed      string // [Rows, Layers·Size]
	Projection string // [Layers·Size, Hidden], of the embedding
	Norm       Norm   // [Size]
}

// LayerInput is how a block uses its vector.
type LayerInput struct {
	Gate, Projection Linear
	Norm             Norm
}

// norms lists the norms of a block, in evaluation order.
func (b *Block) norms() []*Norm {
	list := []*Norm{&b.AttnNorm, &b.QNorm, &b.KNorm, &b.VNorm, &b.AttnSubNorm, &b.AttnPostNorm, &b.FFNNorm,
		&b.FFNSubNorm, &b.FFNPostNorm}
	if b.AltUp != nil {
		list = append(list, &b.AltUp.Norm)
	}
	if b.Laurel != nil {
		list = append(list, &b.Laurel.Norm)
	}
	if b.LayerInput != nil {
		list = append(list, &b.LayerInput.Norm)
	}
	if x := b.Experts; x != nil && x.BesideMLP != nil {
		list = append(list, x.BesideMLP.norms()...)
	}
	return list
}

// Caches reports whether a block has keys and values of its own.
func (b *Block) Caches() bool { return b.HasAttention() && b.KVOf == 0 }
