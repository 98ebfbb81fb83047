package varve

import (
	"fmt"
	"strings"
)

const maxNameLen = 249 // Kafka's limit: name, dash and number have to fit a file name

// reservedNames are topics that Kafka keeps for itself, and varve's servers will.
var reservedNames = []string{"__consumer_offsets", "__transaction_state", "__cluster_metadata", "__share_group_state"}

// checkName applies Kafka's rules for the names of topics.
func checkName(name string) error {
	switch {
	case name == "":
		return &NameError{name, "is empty"}
	case name == "." || name == "..":
		return &NameError{name, `cannot be "." or ".."`}
	case len(name) > maxNameLen:
		return &NameError{name[:32] + "…", fmt.Sprintf("has %d bytes, more than %d", len(name), maxNameLen)}
	}
	for i, c := range name {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-') {
			return &NameError{name, fmt.Sprintf("has %q at byte %d: only a-z, A-Z, 0-9, '.', '_' and '-' are allowed", c, i)}
		}
	}
	for _, r := range reservedNames {
		if name == r {
			return &NameError{name, "is reserved"}
		}
	}
	return nil
}

// checkApart refuses the names that could not stand beside those of internal topics.
func checkApart(name string) error {
	for _, r := range internalTopics {
		if collisionKey(r) == collisionKey(name) {
			return &NameError{name, fmt.Sprintf("collides with %q, which is reserved", r)}
		}
	}
	return nil
}

// collisionKey is equal for two names that may not stand beside each other:
// Kafka's metrics take "." and "_" for the same, and file systems that fold case
// would give "Orders" and "orders" one directory.
func collisionKey(name string) string {
	return strings.ToLower(strings.ReplaceAll(name, ".", "_"))
}
