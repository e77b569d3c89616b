# Completion of lowpack command lines for fish: ~/.config/fish/completions/lowpack.fish
function __lowpack_complete
    set -l line (commandline -opc)
    set -l typed (commandline -ct)
    for answer in ($line[1] __complete $line[2..-1] "$typed" 2>/dev/null)
        switch $answer
            case :files :dirs
                # what stands before a file name: --flag= or kind:
                set -l before (string match -r '^(?:-[^=]*=|[a-z]+:)' -- "$typed")
                set -l path (string sub -s (math 1 + (string length -- "$before")) -- "$typed")
                if test $answer = :dirs
                    printf "$before%s\n" (__fish_complete_directories "$path" '')
                else
                    printf "$before%s\n" (__fish_complete_path "$path")
                end
            case '*'
                echo $answer
        end
    end
end
complete -c lowpack -f -a '(__lowpack_complete)'
