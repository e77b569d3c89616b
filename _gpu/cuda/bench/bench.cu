// bench checks the kernels of codes against plain loops, and measures them: bench KERNELS.cubin [LIBBITNET.so [SKIP]].
// The library is the kernel of microsoft/BitNet (gpu/bitnet_kernels), for comparison; - is none. Kernels with SKIP in
// their names are left out.
#include "check.cuh"
#include "time.cuh"

int main(int n, char **args) {
	if (n < 2) return fprintf(stderr, "usage: bench KERNELS.cubin [LIBBITNET.so [SKIP]]\n"), 2;
	cudaDeviceProp d;
	must(cudaGetDeviceProperties(&d, 0));
	int driver;
	must(cudaDriverGetVersion(&driver));
	printf("%s, %d multiprocessors, L2 %d MB, driver for CUDA %d.%d\n", d.name, d.multiProcessorCount,
		d.l2CacheSize >> 20,
		driver / 1000, driver % 1000 / 10);
	Kernels k(args[1]);
	k.skip = n > 3 ? args[3] : "-";
	int wrong = check(k);
	Original original(n > 2 && *args[2] != '-' ? args[2] : nullptr);
	checkOriginal(original);
	measure(k, original);
	return wrong != 0;
}
