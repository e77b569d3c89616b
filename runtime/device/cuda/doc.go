// Package cuda computes the steps of package device on NVIDIA GPUs.
//
// Its kernels, written in CUDA C++ under _gpu/cuda, are in the program as machine code for compute capability 9.0 and
// as PTX, which the driver compiles for any GPU from 8.0 on. The driver's library, libcuda, is the only thing that must
// be installed; programs built with the tag vulkan load it, without cgo.
package cuda
