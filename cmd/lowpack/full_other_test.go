//go:build !linux

package main

func limitFiles(string) {}
