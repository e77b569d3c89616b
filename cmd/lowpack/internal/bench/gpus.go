package bench

// GPU is a graphics card with the peaks that its vendor states.
type GPU struct {
	Name      string  `json:"name"`
	Memory    int     `json:"memory_bytes"`
	Bandwidth float64 `json:"bytes_per_second"` // of its memory
	// Int8 and Float32 are operations per second: two per multiply-add, dense, at the highest clock that the vendor
	// states.
	Int8    float64 `json:"int8_operations_per_second"`
	Float32 float64 `json:"float32_operations_per_second"`
	Source  string  `json:"source"` // of the figures
}

const gib = 1 << 30

// GPUs are those that models are computed for: one that people own of each vendor.
func GPUs() []GPU {
	return []GPU{
		// Rows "Memory Bandwidth" (1,008 GB/s), "Peak INT8 Tensor TOPS" (660.6 dense, 1,321.2 sparse) and "Peak FP32
		// TFLOPS (non-Tensor)" (82.6), at the boost clock of 2,520 MHz.
		{"GeForce RTX 4090", 24 * gib, 1008e9, 660.6e12, 82.6e12,
			"NVIDIA Ada GPU Architecture (white paper), appendix A, table of the GeForce RTX 4090"},
		// 20 Gbps on 384 bits. 96 compute units at 2,500 MHz, in a clock 512 operations of WMMA with int8 each, as many
		// as with halves, and 256 of float32 when two instructions issue at once (61.4 TFLOPS).
		{"Radeon RX 7900 XTX", 24 * gib, 960e9, 96 * 512 * 2.5e9, 96 * 256 * 2.5e9,
			"AMD, specifications of the Radeon RX 7900 XTX; AMD GPUOpen, operations per clock and compute unit of " +
				"RDNA 3 (WMMA)"},
		// 17.5 Gbps on 256 bits. 32 Xe-cores of 16 engines at 2,400 MHz, in a clock 256 operations of XMX with int8 and
		// 16 of float32 each.
		{"Arc A770 16 GB", 16 * gib, 560e9, 512 * 256 * 2.4e9, 512 * 16 * 2.4e9,
			"Intel, specifications of the Arc A770; Introduction to the Xe-HPG Architecture (white paper), " +
				"vector and matrix engines"},
	}
}
