// bcryptprimitives.dll for Wine 8, whose own lacks ProcessPrng, by which Go reads random numbers.
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE p, SIZE_T n) { return SystemFunction036(p, n); }
