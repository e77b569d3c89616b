package main

// become does nothing: Windows has no way for a program to become another one. Users start the twin by its name.
func become(string, []string) {}
