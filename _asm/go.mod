module github.com/lowpack/lowpack/_asm

go 1.26.0
