package cli

import (
	"github.com/spf13/cobra"
)

func (a *app) completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Print a completion script for a shell",
		Long: `Print a script that makes a shell complete varve's commands, flags, topic names
and config keys.`,
		Example: `  source <(varve completion bash)
  varve completion zsh > "${fpath[1]}/_varve"
  varve completion fish > ~/.config/fish/completions/varve.fish
  varve completion powershell | Out-String | Invoke-Expression`,
		Args:      exactArgs("a shell"),
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		RunE: func(c *cobra.Command, args []string) error {
			root := c.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(a.out, true)
			case "zsh":
				return root.GenZshCompletion(a.out)
			case "fish":
				return root.GenFishCompletion(a.out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(a.out)
			}
			return usagef("no completions for %q (there are bash, zsh, fish and powershell)", args[0])
		},
	}
}
