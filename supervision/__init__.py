"""Starting, watching and ending the processes of one installation."""
