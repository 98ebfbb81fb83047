package cli

import (
	"errors"
	"regexp"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/group/kafkaoffsets"
)

// topicForm is how the names of topics look: among the folders of a data directory
// it tells those of topics.
var topicForm = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

// checkName says why no topic can have a name, for a command that opens no engine.
// The rule is the engine's, which keeps the commits of groups under a name that is
// nobody else's.
func checkName(name string) error {
	if name == kafkaoffsets.Topic {
		return nil
	}
	err := rehearse(name, varve.TopicConfig{})
	var wrong *varve.NameError
	if errors.As(err, &wrong) {
		return asked(wrong)
	}
	return err
}
