package config

// Cache keeps parsed files by content and evaluated objects by what they depend on,
// between loads. It is safe for concurrent use.
type Cache struct{}
