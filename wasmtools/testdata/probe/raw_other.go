//go:build !wasip1

package main

func rawOpen(string) int32 { return -1 }
