package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/varvelog/varve"
)

func (a *app) topicDeleteCommand() *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a topic and all its records",
		Long: `Delete a topic and all its records, for good. On a terminal it asks first;
elsewhere it needs --yes.`,
		Example:           `  varve topic delete orders --yes`,
		Args:              exactArgs("a topic name"),
		ValidArgsFunction: a.topicNames,
		RunE: func(c *cobra.Command, args []string) error {
			return a.withEngine(func(e *varve.Engine) error {
				t, err := a.topic(e, args[0])
				if err != nil {
					return err
				}
				if !yes {
					if err := a.confirmDelete(c.Context(), t); err != nil {
						return err
					}
				}
				if err := e.DeleteTopic(t.Name()); err != nil {
					return err
				}
				fmt.Fprintf(a.err, "deleted topic %s\n", args[0])
				return nil
			})
		},
	}
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return c
}

// confirmDelete returns nil only for a plain yes. A signal ends the question.
func (a *app) confirmDelete(ctx context.Context, t *varve.Topic) error {
	return a.confirm(ctx, fmt.Sprintf("topic %q and its %s", t.Name(), count(t.Stats().Records, "record")))
}

// confirm asks whether something is to be deleted.
func (a *app) confirm(ctx context.Context, what string) error {
	if !isTerminal(a.in) {
		return usagef("deleting %s needs --yes where nobody can be asked", what)
	}
	fmt.Fprintf(a.err, "Delete %s for good? [y/N] ", what)
	in := &interruptibleReader{ctx: ctx, r: a.in, moved: func(int64) {}}
	answer, err := bufio.NewReader(in).ReadString('\n')
	if sig := interrupted(ctx); sig != nil {
		fmt.Fprintln(a.err) // behind the question
		return fmt.Errorf("not deleted: %w", sig)
	}
	if err != nil && answer == "" {
		fmt.Fprintln(a.err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errors.New("not deleted")
}
