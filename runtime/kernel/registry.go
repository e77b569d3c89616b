package kernel

//go:generate go run -C ../../_asm ./kernel

// kernels in order of preference: within a layout the best first, then those that serve every layout.
var kernels = append(nativeKernels(), generic)
