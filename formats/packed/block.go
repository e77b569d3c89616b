package packed

// Block is the number of columns whose products are summed exactly in a quantized linear layer before scaling: the
// columns that share a weight scale and an activation scale (NUMERICS N15). It is K if both cover the whole row. The
// candidate filter of the head is not a linear layer: it has its own activations.
func (m *Manifest) Block(e *Entry) int {
	block := e.MatrixShape().K
	if e.Scale.Kind == ScaleGroup {
		block = min(block, e.Scale.Group)
	}
	if m.Activation.Size > 0 && e.Name != ScreenName {
		block = min(block, m.Activation.Size)
	}
	return block
}

// Blocks is the number of blocks per row.
func (m *Manifest) Blocks(e *Entry) int {
	block := m.Block(e)
	return (e.MatrixShape().K + block - 1) / block
}
