package config

// Version is Mayfly's own version.
const Version = "0.1.0"
