#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Check what bash, zsh and fish offer after a command line that starts with the command $1:
# every option of every command, and the values of some options.  A shell that is not
# installed is skipped.
#
# Functions seem unused, because they are called by their shell's name.
# shellcheck disable=SC2317

set -eu

cohort=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

if ! command -v python3 >/dev/null; then
	echo "completions are made by a Python script, but python3 is not installed"
	exit 77
fi
scripts/completions.py "$cohort" "$scratch"
mkdir "$scratch/files"
touch "$scratch/files/a file.json"

# Each offers_SHELL function reads command lines, and for each one prints what the shell
# offers: one line, with words between spaces.  Each runs in a directory with one file.

cat >"$scratch/ask.bash" <<'END'
source "$1/cohort.bash"
cd "$1/files"
while IFS= read -r line; do
	read -ra COMP_WORDS <<<"$line"
	[[ $line != *' ' ]] || COMP_WORDS+=("")
	COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
	_cohort
	echo " ${COMPREPLY[*]-} "
done
END
offers_bash() {
	bash --norc "$scratch/ask.bash" "$scratch"
}

# zsh completes only in a terminal.
cat >"$scratch/asked.zsh" <<'END'
unsetopt prompt_sp
autoload -Uz compinit
compinit -D -u
bindkey "^I" complete-word
bindkey "^U" kill-whole-line
# zsh empties compprefuncs and comppostfuncs after each completion, so both functions add
# themselves again.
offers_begin() { print -r "<offers>"; compprefuncs=(offers_begin) }
offers_end() { compstate[list]= compstate[insert]=; print -r "</offers>"; comppostfuncs=(offers_end) }
compprefuncs=(offers_begin) comppostfuncs=(offers_end)
compadd() {
	local -a offers

	if [[ ${@[1,(i)(-|--)]} != *-(O|A|D)\ * ]]; then
		builtin compadd -A offers "$@"
		print -rl -- "${offers[@]}"
	fi
	builtin compadd "$@"
}
print rea""dy
END
cat >"$scratch/ask.zsh" <<'END'
zmodload zsh/zpty
cd $1/files
zpty shell zsh -f -i
zpty -w shell "fpath=($1 \$fpath); source $1/asked.zsh"
zpty -r -m shell seen '*ready*'
while IFS= read -r line; do
	zpty -w -n shell $'\C-u'"$line"$'\t'
	zpty -r -m shell seen '*</offers>*'
	print -r -- ${${${seen#*<offers>}%</offers>*}//[$'\r\n']##/ }' '
done
zpty -d shell
END
offers_zsh() {
	timeout 60 zsh -f -o extended_glob "$scratch/ask.zsh" "$scratch"
}

cat >"$scratch/ask.fish" <<'END'
source $argv[1]/cohort.fish
cd $argv[1]/files
while read -l line
	echo " "(complete -C $line | string replace -r '\t.*' '')" " | string join ' '
end
exit 0
END
offers_fish() {
	HOME=$scratch fish "$scratch/ask.fish" "$scratch"
}

# Each command must offer all options that its help lists.
commands=("")
while read -r name; do
	commands+=(" $name")
	while read -r under; do
		commands+=(" $name $under")
	done < <("$cohort" "$name" --help | sed -nE "s/^ +cohort $name ([a-z]+) .*/\1/p")
done < <("$cohort" --help | sed -nE 's/^  ([a-z]+) +[a-z].*/\1/p')
for path in "${commands[@]}"; do
	# shellcheck disable=SC2086 # split into words
	options=$("$cohort" $path --help | sed -nE 's/^  (-.*)/\1/p' | sed 's/   *.*//' |
		grep -oE '(^|, )--?[a-z][a-z-]*' | sed 's/^, //' | tr '\n' ' ')
	[ -n "$path" ] || options='--help --version'
	echo "cohort$path -|$options"
done >"$scratch/wanted"
if [ "$(grep -c -- --help "$scratch/wanted")" -ne "${#commands[@]}" ]; then
	echo "the help of some command was not understood:"
	cat "$scratch/wanted"
	exit 1
fi
# Values of options and other words that must be offered; "!" marks ones that must not.
cat >>"$scratch/wanted" <<'END'
cohort |bench run trace info
cohort be|bench !run
cohort bench |all_reduce send_recv average !info
cohort bench average |!all_reduce !average
cohort demo --platform |gpu host !--ranks
cohort demo --platform h|host !gpu
cohort drill --ranks |2 4 8
cohort bench -d f|float32 float64 !int8
cohort bench -c |0 1
cohort bench -g 2 all_|all_reduce
cohort bench average --only |alone flat
cohort run --nccl |auto file.json
cohort run -n 4 --str|--strict
cohort run -n 4 env -|!--strict
cohort launch -n 2 tru|true
cohort trace |file.json
cohort trace --json |file.json
END

failed=0
for shell in bash zsh fish; do
	if ! command -v $shell >/dev/null; then
		echo "[SKIP] completion for $shell: $shell is not installed"
		continue
	fi
	sed 's/|.*//' "$scratch/wanted" | "offers_$shell" >"$scratch/offers" 2>"$scratch/err" ||
		echo "status $?" >>"$scratch/err"
	if [ -s "$scratch/err" ] ||
		[ "$(wc -l <"$scratch/offers")" -ne "$(wc -l <"$scratch/wanted")" ]; then
		echo "$shell fails:"
		cat "$scratch/err" "$scratch/offers"
		failed=1
	fi
	while IFS='|' read -r line wanted; do
		IFS= read -r offers <&3 || offers=
		for word in $wanted; do
			case $word in
			!*) [[ $offers != *" ${word#!} "* ]] || word= ;;
			*) [[ $offers == *" $word "* ]] || word= ;;
			esac
			[ -n "$word" ] && continue
			echo "$shell: '$line' must be offered $wanted, but is$offers"
			failed=1
			break
		done
	done <"$scratch/wanted" 3<"$scratch/offers"
done

# bash splits an option from its value at the equals sign.
value=$(bash -c "source $scratch/cohort.bash; COMP_CWORD=4
	COMP_WORDS=(cohort demo --platform = g); _cohort; echo \${COMPREPLY[*]}")
if [ "$value" != gpu ]; then
	echo "bash: cohort demo --platform=g is offered '$value'"
	failed=1
fi
exit $failed
