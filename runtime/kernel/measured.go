package kernel

// measured comes from `lowpack bench kernels --threads 1 --tokens 1,128`: matrices of 2560 × 2560, weights from memory, of
// the alphabet that stands for a kernel; what spread by more than a tenth is left out. The core read 34 to 37 GB/s, and
// multiplied 473 GOPS with VPDPBUSD and 376 without.
var measured = []Measurement{
	{"vnni4i/avx512vnni", "ternary", 249, 451},
	{"vnni4i/avx2", "ternary", 188, 383},
	{"vnni4i/avx512vnni", "int2", 258, 455},
	{"vnni4i/avx2", "int2", 193, 261},
	{"vnni4i/avx512vnni", "int1", 391, 450},
	{"vnni4i/avx512vnni", "int4", 131, 445},
	{"vnni4i/avx2", "int4", 119, 218},
	{"vnni4i/avx512vnni", "e2m1", 125, 441},
	{"vnni4i-64/avx512vnni", "ternary", 249, 447},
	{"vnni4i-64/avx2", "ternary", 144, 389},
	{"vnni4i-64/avx512vnni", "int2", 255, 458},
	{"vnni4i-64/avx2", "int2", 144, 255},
	{"vnni4i-64/avx512vnni", "int1", 413, 459},
	{"vnni4i-64/avx512vnni", "int4", 134, 432},
	{"vnni4i-64/avx512vnni", "e2m1", 126, 435},
	{"vnni4t/avx512vnni", "ternary", 211, 383},
	{"vnni4t/avx2", "ternary", 100, 386},
	{"vnni4/avx512vnni", "int8", 64, 412},
	{"vnni4/avx2", "int8", 63, 129},
	{"vnni4/avx512vnni", "int1", 340, 389},
	{"vnni4/avx2", "int1", 190, 355},
	{"vnni4-64/avx512vnni", "int1", 347, 416},
	{"vnni4-64/avx2", "int1", 208, 364},
	{"i1-t2/avx2", "ternary", 193, 369},
	{"i2/avx2", "ternary", 191, 375},
	{"i2-t4/avx2", "ternary", 192, 396},
	{"i2-t8/avx2", "ternary", 192, 407},
	{"*/avx512vnni", "ternary", 247, 437},
	{"*/avx2", "ternary", 193, 384},
	{"*/avx512vnni", "int8", 67, 424},
	{"*/avx2", "int8", 65, 129},
}
