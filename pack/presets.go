package pack

// Preset returns the block factors that bitnet.cpp ships for a matrix of this shape, and whether it ships any. Its
// files do not record them: a file of unknown origin in tl1 or tl2 was most likely packed with these.
func Preset(layout string, s Shape) (map[string]int, bool) {
	switch layout {
	case "tl1":
		if p, ok := tl1Presets[s]; ok {
			return map[string]int{"BM": p[0], "BK": p[1], "bm": p[2]}, true
		}
	case "tl2":
		if p, ok := tl2Presets[s]; ok {
			return map[string]int{"BM": p[0], "BK": p[1]}, true
		}
	}
	return nil, false
}

// tl1Presets: BM, BK, bm.
var tl1Presets = map[Shape][3]int{
	// bitnet_b1_58-3B
	{3200, 8640}: {160, 64, 32}, {3200, 3200}: {320, 128, 64}, {8640, 3200}: {320, 64, 32},
	// bitnet_b1_58-large
	{1536, 4096}: {256, 128, 32}, {1536, 1536}: {128, 64, 64}, {4096, 1536}: {256, 128, 32},
	// Llama3-8B-1.58
	{14336, 4096}: {256, 128, 64}, {4096, 14336}: {256, 128, 32}, {1024, 4096}: {128, 64, 64},
	{4096, 4096}: {128, 64, 32},
}

// tl2Presets: BM, BK.
var tl2Presets = map[Shape][2]int{
	// bitnet_b1_58-3B
	{3200, 8640}: {160, 96}, {3200, 3200}: {320, 96}, {8640, 3200}: {320, 96},
	// bitnet_b1_58-large
	{1536, 4096}: {256, 96}, {1536, 1536}: {128, 192}, {4096, 1536}: {256, 96},
	// Llama3-8B-1.58
	{14336, 4096}: {256, 96}, {4096, 14336}: {128, 96}, {1024, 4096}: {256, 96}, {4096, 4096}: {128, 96},
}
