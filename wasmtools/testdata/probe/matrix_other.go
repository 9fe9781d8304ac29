//go:build !wasip1

package main

func matrix(args) any { return nil }
