#compdef lowpack
# Completion of lowpack command lines for zsh: a file _lowpack in a folder of $fpath, or source <(lowpack completion zsh)
_lowpack() {
  local line word rest=
  local -a spaced joined
  for line in "${(@f)$("${(Q)words[1]}" __complete "${(@Q)words[2,CURRENT]}" 2>/dev/null)}"; do
    case $line in
      '') ;;
      :files | :dirs) rest=$line ;;
      *)
        word=${${line%%$'\t'*}//:/\\:}
        [[ $line == *$'\t'?* ]] && word+=:${line#*$'\t'}
        if [[ ${line%%$'\t'*} == *[=:] ]]; then joined+=("$word"); else spaced+=("$word"); fi
        ;;
    esac
  done
  local found=1
  (( $#spaced )) && _describe -V lowpack spaced && found=0
  (( $#joined )) && _describe -V lowpack joined -S '' && found=0
  if [[ -n $rest ]]; then
    compset -P '*[=:]'
    if [[ $rest == :dirs ]]; then _files -/ && found=0; else _files && found=0; fi
  fi
  return found
}
if [[ ${funcstack[1]} == _lowpack ]]; then _lowpack "$@"; else compdef _lowpack lowpack; fi
