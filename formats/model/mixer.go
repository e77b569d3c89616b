package model

// Mixer names the tensors of a recurrent layer: positions are mixed through a state of fixed size, in place of the keys
// and values of attention (RECURRENT N60).
type Mixer struct {
	Kind  MixerKind
	In    Linear // its output is divided as the kind says; empty with a Delta
	Conv  Conv
	SSD   *SSD   // of Mamba2
	Delta *Delta // of GatedDelta
	Out   Linear

	Selective *Selective // of Mamba
}

// MixerKind is the recurrence of a Mixer.
type MixerKind string

// The kinds.
const (
	ShortConv  MixerKind = "short_conv"  // gated short convolution (LFM2)
	Mamba2     MixerKind = "mamba2"      // state space of Mamba-2
	GatedDelta MixerKind = "gated_delta" // Qwen3-Next
	Mamba      MixerKind = "mamba"       // selective state space of Mamba
)

// Conv is a causal depthwise convolution: one filter per channel.
type Conv struct {
	Weight   string // [Channels, 1, Width]
	Bias     string // [Channels]; "" = none
	Channels int
	Width    int // positions that a filter spans, its own included
}

// inputs lists the linear layers that read the input of a recurrent layer.
func (m *Mixer) inputs() []*Linear {
	if m.Delta != nil {
		return m.Delta.layers()
	}
	return []*Linear{&m.In}
}

// Inputs is the number of outputs of the input layers for a token, all together.
func (m *Mixer) Inputs() (n int) {
	for _, l := range m.inputs() {
		n += l.Out
	}
	return n
}

// State is the number of float32 values that a sequence keeps of all positions so far.
func (m *Mixer) State() int {
	n := m.Conv.Channels * (m.Conv.Width - 1)
	if s := m.SSD; s != nil {
		n += s.inner() * s.StateDim
	}
	if x := m.Delta; x != nil {
		n += x.values() * x.KeyDim
	}
	if x := m.Selective; x != nil {
		n += x.Channels * x.StateDim
	}
	return n
}

// StateBytes is the size of the recurrent state of a sequence, 0 for a model with attention alone.
func (d *Description) StateBytes() (n int64) {
	for i := range d.Blocks {
		if m := d.Blocks[i].Mixer; m != nil {
			n += 4 * int64(m.State())
		}
	}
	return n
}

// CachedLayers counts the blocks whose keys and values are cached.
func (d *Description) CachedLayers() (n int) {
	for i := range d.Blocks {
		if d.Blocks[i].Caches() {
			n++
		}
	}
	return n
}

// AttentionLayers counts the blocks with attention.
func (d *Description) AttentionLayers() (n int) {
	for i := range d.Blocks {
		if d.Blocks[i].HasAttention() {
			n++
		}
	}
	return n
}

// Recurrent names the first kind of recurrent layer, "" if there is none.
func (d *Description) Recurrent() MixerKind {
	for i := range d.Blocks {
		if m := d.Blocks[i].Mixer; m != nil {
			return m.Kind
		}
	}
	return ""
}

// recur replaces the attention of a block.
func (b *Block) recur(m *Mixer) {
	b.Mixer = m
	b.Q, b.K, b.V, b.O, b.QNorm, b.KNorm = Linear{}, Linear{}, Linear{}, Linear{}, Norm{}, Norm{}
}

// HasAttention reports whether a block has attention.
func (b *Block) HasAttention() bool { return b.Q.Weight != "" }

// HasMLP reports whether a block has an MLP or experts behind its attention or recurrent layer.
func (b *Block) HasMLP() bool { return b.Up.Weight != "" || b.Experts != nil }
