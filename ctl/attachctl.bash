# bash completion for attachctl. A unit test holds its words against the program's own table.

_attachctl_options() {
    local always="--redis-url --queue --help --version"
    local sandbox="--provider --sandbox --set --execution-id --timeout-ms --no-wait --json"
    case "$1" in
    attach) echo "$sandbox --remote-dir --wake --read $always" ;;
    status) echo "$sandbox --remote-dir --wake $always" ;;
    read-output)
        echo "$sandbox --remote-dir --wake --stream --offset --max-bytes --raw $always"
        ;;
    info) echo "$sandbox $always" ;;
    enqueue) echo "--timeout-ms --no-wait --json $always" ;;
    providers) echo "--json $always" ;;
    *) echo "$always" ;;
    esac
}

# The first words of the lines between the heading and the empty line.
_attachctl_providers() {
    "$1" providers 2>/dev/null | {
        local name
        read -r name
        read -r name
        while read -r name _ && [[ -n $name ]]; do
            echo "$name"
        done
    }
}

_attachctl() {
    local current=${COMP_WORDS[COMP_CWORD]}
    local previous=${COMP_WORDS[COMP_CWORD - 1]}
    local commands="attach status read-output info enqueue providers completion help"
    local command="" words="" i
    COMPREPLY=()

    # The first word that is neither an option nor an option's value.
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "${COMP_WORDS[i]}" in
        --redis-url | --queue | --provider | --sandbox | --set | --execution-id | \
            --remote-dir | --stream | --offset | --max-bytes | --timeout-ms)
            ((i++))
            ;;
        -*) ;;
        *)
            command=${COMP_WORDS[i]}
            break
            ;;
        esac
    done

    case "$previous" in
    --provider) words=$(_attachctl_providers "${COMP_WORDS[0]}") ;;
    --stream) words="stdout stderr" ;;
    --redis-url | --queue | --sandbox | --set | --execution-id | --remote-dir | \
        --offset | --max-bytes | --timeout-ms)
        return
        ;;
    *)
        if [[ $current == -* ]]; then
            words=$(_attachctl_options "$command")
        elif [[ -z $command ]]; then
            words=$commands
        elif [[ $command == enqueue ]]; then
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
            return
        elif [[ $command == completion ]]; then
            words="bash"
        elif [[ $command == help ]]; then
            words=$commands
        fi
        ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}

complete -F _attachctl attachctl
