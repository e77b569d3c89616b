// All kernels, one module.
#include "attention.cu"
#include "codes.cu"
#include "few.cu"
#include "floats.cu"
#include "gemv.cu"
#include "many.cu"
#include "vectors.cu"
