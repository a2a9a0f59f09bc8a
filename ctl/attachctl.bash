# bash completion for attachctl. A unit test holds its words against the program's own table.

_attachctl_options() {
    local always="--redis-url --queue --help --version"
    local target="--provider --sandbox --set --execution-id --timeout-ms"
    local sandbox="$target --no-wait --json"
    local execution="$sandbox --remote-dir --wake"
    local launch="$execution --stdin --input --input-path --input-limit-bytes \
        --startup-timeout-ms --grace-ms --job-id --quiet"
    case "$1" in
    attach) echo "$execution --read $always" ;;
    status) echo "$execution $always" ;;
    read-output) echo "$execution --stream --offset --max-bytes --raw $always" ;;
    logs) echo "$target --remote-dir --wake --follow --raw --quiet $always" ;;
    deploy)
        echo "$launch --archive --artifact-dir --url --sha256 --env --env-file \
            --working-directory --install-command --cpu-seconds --memory-bytes \
            --file-size-bytes --open-files --install-timeout-ms --execution-timeout-ms $always"
        ;;
    relaunch) echo "$launch --from $always" ;;
    cancel) echo "$execution --grace-ms --job-id $always" ;;
    stop) echo "$sandbox --job-id $always" ;;
    destroy) echo "$sandbox --attempts --delay-ms --job-id $always" ;;
    info) echo "$sandbox $always" ;;
    enqueue) echo "--timeout-ms --no-wait --quiet --json $always" ;;
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
    local commands="attach status read-output logs deploy relaunch cancel stop destroy info \
        enqueue providers completion help"
    # Options without a value; every other one is followed by its own.
    local flags="--wake --follow --read --raw --no-wait --quiet --json --help --version"
    local command="" words="" i
    COMPREPLY=()

    # The first word that is neither an option nor an option's value.
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "${COMP_WORDS[i]}" in
        --*)
            if [[ " $flags " != *" ${COMP_WORDS[i]} "* && ${COMP_WORDS[i]} != *=* ]]; then
                ((i++))
            fi
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
    --archive | --env-file | --stdin | --input)
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        return
        ;;
    --env)
        mapfile -t COMPREPLY < <(compgen -e -- "$current")
        return
        ;;
    --?*)
        if [[ " $flags " != *" $previous "* && $previous != *=* ]]; then
            return
        fi
        ;;&
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
