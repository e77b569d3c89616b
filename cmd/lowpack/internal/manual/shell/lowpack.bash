# Completion of lowpack command lines for bash. Load it with: source <(lowpack completion bash)
_lowpack() {
  local IFS=$'\n' line typed=${COMP_WORDS[COMP_CWORD]}
  [[ $typed == [=:] ]] && typed=
  COMPREPLY=()
  local files= dirs=
  for line in $("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null); do
    case $line in
      :files) files=1 ;;
      :dirs) dirs=1 ;;
      *) COMPREPLY+=("${line%%$'\t'*}") ;;
    esac
  done
  if [[ $dirs ]]; then
    compopt -o dirnames +o default
  elif [[ ! $files ]]; then
    compopt +o default
    [[ ${#COMPREPLY[@]} == 1 && $COMPREPLY == *[=:] ]] && compopt -o nospace
  elif ((${#COMPREPLY[@]})); then # words beside file names, which -o default would add only where there are no words
    compopt -o filenames
    COMPREPLY+=($(compgen -f -- "$typed"))
  fi
} 2>/dev/null
complete -o default -F _lowpack lowpack
