#!/bin/sh
# xfer.sh: takes part in an xfer tree with a POSIX shell and its usual tools (dash; busybox with its own applets).
#
#   sh xfer.sh send alice hello              as a command; `sh xfer.sh help` lists them
#   . ./xfer.sh; xfer_send alice hello       or sourced, by a script that is not itself called xfer or xfer.sh
#
# The text it follows is protocol.md; numbers in brackets are its sections. Bodies hold any bytes and pass through no
# variable. A NUL in a header is not supported: shells drop it. Status: 0 done, 1 failed, 2 refused, 3 not there,
# 5 somebody else's, 6 done for some. Variables begin with _, so that none of them is another program's.
#
# shellcheck disable=SC2015,SC2016,SC2018,SC2019,SC2086,SC2094,SC2154,SC3012,SC3013
# A && B || C is meant as it stands; quotes hold text for others; LC_ALL is C; _h_* are read by name; words are wanted of
# what is unquoted (numbers, names of Nodes, steps); and [ a \< b ] and -ef are in dash and busybox, and in POSIX since 2024.

# The commands for who sources this: in subshells, so that they leave variables, options and the directory alone.
xfer_join() (xfer_main join "$@")
xfer_send() (xfer_main send "$@")
xfer_inbox() (xfer_main inbox "$@")
xfer_read() (xfer_main read "$@")
xfer_mark() (xfer_main mark "$@")
xfer_reply() (xfer_main reply "$@")
xfer_recall() (xfer_main recall "$@")
xfer_live() (xfer_main live "$@")
xfer_doctor() (xfer_main doctor "$@")
xfer_board() (xfer_main board "$@")
# For a script that is a Node itself: XFER_INSTANCE=$(xfer_instance); export XFER_INSTANCE; xfer_lock_acquire NAME || exit;
# xfer_lock_refresh NAME every 5 s (1: the lock is lost, acquire it anew); xfer_lock_release NAME at the end.
xfer_instance() (xfer_main instance)
xfer_lock_acquire() (xfer_main lock acquire "$@")
xfer_lock_refresh() (xfer_main lock refresh "$@")
xfer_lock_release() (xfer_main lock release "$@")

# What a person sees who asks, or who typed something else.
xfer_help() {
	cat <<-'END'
		xfer.sh send alice "the text"       words, or - for standard input: git diff | xfer.sh send a,b review this -
		xfer.sh inbox [NODE] [--all]        id, date, state, kind, from, subject
		xfer.sh read [ID] [--take|--peek]   the oldest, or that one
		xfer.sh mark ID|PATH read|new|failed [WHY...]
		xfer.sh reply ID "the text"         answers the sender
		xfer.sh recall ID                   takes back what nobody has taken
		xfer.sh join NAME                   makes a Node
		xfer.sh live NAME CMD...            is that Node while CMD runs
		xfer.sh doctor --json FILE          what a reader sees in a file
		xfer.sh board list [--all] [--mine] id, title, by, Entries, date and author of the last, holder, whether done
		xfer.sh board new TITLE ["the text"]; show CARD; add CARD "the text" [--type finding]
		xfer.sh board claim CARD [--for 2h]; release CARD; done CARD ["the text"]
		--as NAME: who acts (else $XFER_NODE, else the login name). send, reply: --subject S --kind K --expires 30m
		--priority urgent|normal|low --key K; send: --re ID. Words that begin with a dash come after --
	END
}

# Runs a command with the settings that all of them rely on, whatever those of the script around it are.
xfer_main() {
	set +Cefu
	_command=${1:-} _nl='
'
	IFS=" 	$_nl"
	case $_command in
	join | send | inbox | read | mark | reply | recall | live | doctor | board | instance | lock) shift ;;
	help | -h | --help) xfer_help && exit ;;
	*) xfer_die 2 "no command '$_command' (xfer.sh help lists them)" ;;
	esac
	_root=${XFER_HOME:-${HOME:-}/.xfer} _inst='' _ns='' _stuck='' _large=''
	case $_root in [!/]* | /.xfer) xfer_die 2 "no absolute path to the tree: $_root (set XFER_HOME, or unset it to use ~/.xfer)" ;; esac
	_max=${XFER_MAX_BYTES:-1048576} _hold=${XFER_LEASE:-600} _refresh=${XFER_REFRESH:-5} _stale=${XFER_STALE:-15}
	case $_max$_hold$_refresh$_stale in *[!0-9]*) xfer_die 2 "XFER_MAX_BYTES, XFER_LEASE, XFER_REFRESH and XFER_STALE are whole numbers" ;; esac
	case ${XFER_INSTANCE:-} in *[!0-9a-hjkmnp-tv-z]*) ;; ????????) _inst=$XFER_INSTANCE ;; esac
	[ "$_command" != live ] || { _umask=$(umask) && _locale=${LC_ALL-unset}; } # CMD gets them back
	umask 077
	export LC_ALL=C # bytes, for the order of names and for lengths
	"xfer_do_$_command" "$@"
}

# Makes a Node; one that is there stays as it is.
xfer_do_join() {
	xfer_args as= "$@"
	[ $_count = 1 ] || xfer_die 2 "join takes one name (xfer.sh join NAME)"
	xfer_node "$_first" || : # made now
	xfer_make "$_dir"
	printf '%s is here (%s)\n' "$_name" "$_dir"
}

# Delivers a copy to each recipient. Nothing is made before one was found good.
xfer_do_send() {
	xfer_args 'as= kind= subject= priority= expires= key= re=' "$@"
	IFS=,
	set -f
	set -- $_first
	set +f
	IFS=" 	$_nl"
	[ $# -gt 0 ] || xfer_die 2 "nobody to send to (xfer.sh send NAME the text)"
	xfer_me || : # made later
	_found='' _missing=''
	for _to; do
		if ! xfer_node "$_to"; then _missing="$_missing $_name"; else case "$_found " in *" $_name "*) ;; *) _found="$_found $_name" ;; esac; fi
	done
	for _to in $_missing; do
		[ -n "$_found" ] || xfer_die 3 "no Node '$_to' in $_root (to make it: xfer.sh join $_to)"
		printf "xfer: no Node '%s' in %s (to make it: xfer.sh join %s)\n" "$_to" "$_root" "$_to" >&2
	done
	xfer_clock $((10 * $# + 10))
	xfer_text "$_found"
	xfer_hand_off "$_found" "${_o_kind:-task}" "$_o_re" '' || exit
	[ -z "$_missing" ] || exit 6
}

# A line for each Handoff, what needs a reader first. Changes nothing.
xfer_do_inbox() {
	xfer_args 'as= all' "$@"
	_o_as=${_first:-$_o_as}
	xfer_enter
	xfer_clock 0
	for _file in new/* cur/*; do
		xfer_regular "$_file" || continue
		xfer_split "$_file"
		case $_o_all$_state in queued | taken | failed | unreadable | 1*) ;; *) continue ;; esac
		case $_id in [0-9]*.*) _time='' ;; *) _time=$(date -r "$_file" +%s 2>/dev/null) ;; esac
		head -c 70000 "$_file" 2>/dev/null | ID=$_id STATE=$_state awk -v mode=line -v all="$_o_all" -v now="$_now" -v time="$_time" "$xfer_awk"
	done | sort | cut -d "$(printf '\037')" -f 3 # rank and name go before
}

# Takes one and shows it, then marks it: what was not shown whole stays unread.
xfer_do_read() {
	trap '' PIPE # so that cat fails, and what it could not show goes back
	xfer_args 'as= take peek' "$@"
	xfer_enter
	xfer_clock 8
	[ -n "$_inst" ] || { xfer_digits && _inst=$_digits; }
	if [ -n "$_o_peek" ]; then
		if [ -n "$_first" ]; then xfer_find "$_first"; else xfer_oldest xfer_peek || xfer_nothing; fi
		xfer_print "$_path"
		exit
	fi
	xfer_mine
	xfer_return
	if [ -n "$_first" ]; then xfer_find "$_first"; else xfer_oldest xfer_take || xfer_nothing; fi
	case $_state:$_by in
	taken:"$_inst") ;;
	queued:*) xfer_take "$_path" || xfer_lost "$_id was taken by somebody else just now, or has expired" ;;
	taken:*) xfer_die 5 "$_id is in somebody else's hand ($_by)" ;;
	*)
		[ -z "$_o_take" ] || xfer_die 5 "$_id is $_state (to have it again: xfer.sh mark $_id new)"
		xfer_print "$_path"
		exit
		;;
	esac
	if [ -n "$_o_take" ]; then
		printf '%s\n' "$_home/$_path" && exit
	elif xfer_print "$_path"; then
		xfer_step "$_path" read || { xfer_find "$_home/cur/$_id,L=1.$_inst" && xfer_in_hand && xfer_step "$_path" read; } && exit
		xfer_lost "$_id was shown, but its lease had passed: it is, or was, somebody else's"
	fi
	xfer_step "$_path" new
	xfer_die 1 "$_id could not be shown whole: it is unread again"
}

# Ends, gives back or fails a Handoff. The sender of a failed one is told.
xfer_do_mark() {
	xfer_args as= "$@"
	_step=${_words%% *} _why=${_words#"${_words%% *}"}
	case $_step in read | new | failed) ;; *) xfer_die 2 "what shall it be? (xfer.sh mark ID read, new or failed)" ;; esac
	xfer_enter
	xfer_clock 10
	xfer_mine
	xfer_find "$_first"
	xfer_in_hand
	xfer_head "$_path"
	case $_step:$_path in new:new/*) ;; *) xfer_step "$_path" "$_step" || xfer_lost "$_id was moved by somebody else just now" ;; esac
	case $_step in new) printf 'queued\t%s\n' "$_id" ;; *) printf '%s\t%s\n' "$_step" "$_id" ;; esac
	[ $_step = failed ] && [ "$_h_kind" != report ] && xfer_name "$_h_from" && xfer_node "$_name" || exit 0 # nobody to tell
	_body=${_why# } _spool='' _expires=''
	_body=${_body:-failed, without a reason}
	xfer_hand_off "$_name" report "$_id" "${_h_thread:-$_id}" >/dev/null
}

# Answers the sender of a Handoff, then marks that one.
xfer_do_reply() {
	xfer_args 'as= kind= subject= priority= expires= key=' "$@"
	xfer_enter
	xfer_clock 20
	xfer_find "$_first"
	_theirs=''
	case $_state in read | answered) (xfer_mine) 2>/dev/null || _theirs=1 ;; *) xfer_mine ;; esac
	[ -z "$_wanted${XFER_INSTANCE:-}" ] || xfer_in_hand
	xfer_head "$_path"
	case $_h_kind in answer | report) _kind=note ;; *) _kind=answer ;; esac
	_hops=''
	[ -z "$_inst" ] || [ ! -e "live.lock/$_inst" ] || _hops=$((_h_hops + 1)) # an agent answers, not a person
	xfer_name "$_h_from" && xfer_node "$_name" || xfer_die 3 "the sender of $_id, '$_h_from', is no Node"
	_answered=$_path _re=$_id
	xfer_text "$_name"
	xfer_hand_off "$_name" "${_o_kind:-$_kind}" "$_re" "${_h_thread:-$_re}" "$_hops" || exit
	cd "$_home" || exit 1
	[ -n "$_theirs" ] || xfer_step "$_answered" answered || xfer_lost "the reply is sent, but $_re was moved by somebody else meanwhile"
}

# Takes back what was sent and nobody has taken.
xfer_do_recall() {
	xfer_args as= "$@"
	xfer_enter
	xfer_clock 0
	xfer_pick "$_first" sent || xfer_die 3 "$_me has sent no '$_first'"
	if [ -L "$_path" ]; then _to=$(readlink "$_path"); else _to=$(! xfer_regular "$_path" || head -c 100 "$_path"); fi
	xfer_name "${_to#../../}" && xfer_node "$_name" && cd "$_dir" && xfer_pick "$_picked" 'new cur' || xfer_die 3 "$_picked is gone"
	xfer_split "$_path"
	[ "$_state" = queued ] && xfer_step "$_path" recalled || xfer_lost "too late to recall $_picked: $_name has it"
	printf 'recalled\t%s\n' "$_picked"
}

# What a reader sees in a file, as JSON; 1: with warnings.
xfer_do_doctor() {
	xfer_args json "$@"
	[ -n "$_o_json" ] && [ $_count = 1 ] || xfer_die 2 "doctor looks at one file (xfer.sh doctor --json FILE)"
	xfer_regular "$_first" && [ -r "$_first" ] && xfer_size "$_first" || xfer_die 3 "no regular file '$_first' that can be read"
	head -c 70000 <"$_first" | FILE=$_first awk -v mode=doctor -v size="$_size" "$xfer_awk"
}

# Cards: topics on the Board that Entries are appended to [14].
xfer_do_board() {
	_action=${1:-} _h_date='' _spool=''
	[ $# = 0 ] || shift
	case $_action in
	list) xfer_args 'as= all mine' "$@" ;;
	add) xfer_args 'as= type=' "$@" ;;
	claim) xfer_args 'as= for=' "$@" ;;
	new | show | release | 'done') xfer_args as= "$@" ;;
	*) xfer_die 2 "no board command '$_action' (list, new, show, add, claim, release or done; xfer.sh help)" ;;
	esac
	xfer_me || [ ! -L "$_dir" ] || xfer_die 2 "$_dir leads to no Node (choose another name)"
	xfer_host
	_on=$(printf %s "$_host" | tr -c A-Za-z0-9._- _)
	case $_action in
	list) [ -d "$_root/board" ] || exit 0 ;;
	new) mkdir -p "$_root/board" || xfer_die 1 "can't make $_root/board (a sandbox may forbid it)" ;;
	esac
	cd "$_root/board" 2>/dev/null || xfer_die 3 "no Board in $_root (to begin one: xfer.sh board new TITLE)"
	case $_action in list | new) ;; *) xfer_card "$_first" ;; esac
	case $_action in list | show) ;; *) mkdir -p .locks || xfer_die 1 "can't make $PWD/.locks (a sandbox may forbid it)" ;; esac
	"xfer_board_$_action"
}

# A line for each Card, newest activity first.
xfer_board_list() {
	xfer_clock 0
	_large=$(find . ! -name . -prune -type f -name '*.md' -size +32768) # more than 16 MiB
	for _file in *.md; do ! xfer_is_card "$_file" || printf '%s/' "$_file"; done | xfer_cards list | sort -r | cut -d "$(printf '\037')" -f 2
}

# Publishes a Card whole, under a name that nobody has.
xfer_board_new() {
	[ -n "$_first" ] || xfer_die 2 "the title is missing (xfer.sh board new TITLE)"
	xfer_clock 16
	xfer_board_text
	_slug=$(VALUE=$_first awk -v mode=slug "$xfer_functions")
	case $_first in # bare only where YAML reads nothing but a string
	[!A-Za-z]* | *[!A-Za-z0-9\ ._/@+-]* | *\ | ? | ?? | ??? | ???? | ?????) _first=$(VALUE=$_first awk -v mode=json "$xfer_functions") ;;
	esac
	xfer_digits
	_id=${_digits%??}
	_card=$_slug-$_id.md _entry=.locks/$_digits.new
	_header="---${_nl}id: $_id${_nl}title: $_first${_nl}created_by: $_me${_nl}created_at: $_date$_nl---$_nl"
	[ ${#_header} -le 65536 ] || xfer_die 2 "the title is too long (the header would be ${#_header} bytes, the limit is 65536)"
	{ printf %s "$_header" && { [ $_size = 0 ] || { echo && xfer_escaped; }; }; } >"$_entry" && xfer_sync "$_entry" && ln "$_entry" "$_card"
	_status=$?
	rm -f "$_entry" "$_spool"
	[ $_status = 0 ] || xfer_die 1 "can't make $PWD/$_card (is there space?)"
	xfer_sync . "$_root" || : # it is there, and must not be made again for this
	printf '%s\t%s\n' "$_id" "$PWD/$_card"
}

xfer_board_show() { xfer_print "./$_card"; }

xfer_board_add() {
	_type=${_o_type:-note}
	case $_type in [!a-z]* | *[!a-z0-9_-]* | ?????????????????????????????????*) xfer_die 2 "'$_type' is not a type (1 to 32 of a-z 0-9 _ -, the first a letter)" ;; esac
	xfer_board_text must
	xfer_clock 0
	# Several of one second would stand in any order after a merge. What one has just added stands near the end.
	_h_date=$(tail -c 65536 "./$_card" 2>/dev/null | awk -v mode=date -v now="$_date" -v me="$_me" "$xfer_awk_cards")
	xfer_append "$_type"
	xfer_receipt added "$_digits"
}

# Appends, then looks whose claim stands first: of several at once one wins.
xfer_board_claim() {
	_for=${_o_for:-2h}
	xfer_duration for "$_for"
	case ${_for%?} in *[!0]*) ;; *) xfer_die 2 "--for $_for claims nothing (2h, say)" ;; esac
	xfer_holder || xfer_held
	[ -z "$_h_over" ] || xfer_die 5 "$_card is $_h_over (board add opens again what is done)"
	_former=${_h_holder:+$_h_until}
	_body="until $(awk -v mode=expires -v now="$_now" -v duration="$_for" "$xfer_functions") on $_on"
	xfer_append claim
	xfer_settled && _why='' || _why="$PWD/.locks/$_card.old is still there (xfer board list mends it when somebody was killed)"
	xfer_holder && _lost='' || _lost=1
	[ -n "$_h_holder" ] || _why='the claim has ended by now (somebody was done with it, or it was short)'
	# Has one's former claim ended (_date has no milliseconds), another may have claimed before this one stood there to go on from it.
	[ -z "$_former" ] || [ "${_date%.*}" \< "${_former%.*}" ] || _why=${_why:-lapsed}
	if [ -n "$_lost$_why" ]; then
		_body="on $_on"
		xfer_append release
		[ -z "$_lost" ] || xfer_held
		[ "$_why" != lapsed ] || { xfer_board_claim; return; }
		xfer_die 5 "$_card could not be claimed: $_why"
	fi
	printf 'claimed\t%s\tuntil %s\n' "$_digits" "$_h_until"
}

xfer_board_release() {
	xfer_holder || xfer_held
	_body="on $_on"
	[ -z "$_h_holder" ] || xfer_append release
	xfer_receipt released
}

xfer_board_done() {
	xfer_board_text # may take long: who holds it is asked after it
	xfer_holder || xfer_held
	xfer_append 'done'
	xfer_receipt 'done' "$_digits"
}

# A new instance, to be XFER_INSTANCE.
xfer_do_instance() {
	xfer_clock 8
	xfer_digits
	printf '%s\n' "$_digits"
}

# The live lock for the shell that sources this: $$ is its pid, here too. 1: lost. 5: somebody else holds it.
xfer_do_lock() {
	[ -n "$_inst" ] || xfer_die 2 'no instance (XFER_INSTANCE=$(xfer_instance); export XFER_INSTANCE)'
	xfer_node "${2-}" || [ "$1" = acquire ] || exit 1
	xfer_make "$_dir"
	_lock=$_dir/live.lock _own=$_dir/live.lock/$_inst
	case $1 in
	acquire) xfer_acquire $$ ;;
	refresh) xfer_refresh ;;
	release) xfer_release ;;
	esac
}

# Is a Node while CMD runs: holds the live lock and says so in node.md, until CMD ends or a signal ends it.
xfer_do_live() {
	[ $# -gt 1 ] || xfer_die 2 "live takes a name and a command (xfer.sh live NAME CMD...)"
	xfer_clock 8
	[ -n "$_inst" ] || { xfer_digits && _inst=$_digits; }
	xfer_node "$1" || : # made now
	xfer_make "$_dir"
	_lock=$_dir/live.lock _own=$_dir/live.lock/$_inst
	shift
	[ "$1" != -- ] || shift
	xfer_acquire "$(exec sh -c 'echo $PPID')" # $$ may be a shell that sourced this, and lives on
	xfer_head "$_dir/node.md"
	if xfer_gone "$_h_host" "$_ns" "$_h_pid"; then (cd "$_dir" && xfer_return "$_h_instance"); fi
	_header=---$_nl
	xfer_fields name "$_name" instance "$_inst" host "$_host" pid "$_pid" agent sh status idle wake none since "$_date" started "$_date"
	{
		printf '%s---\n' "$_header"
		! xfer_regular "$_dir/node.md" || tail -c "+$((_h_offset + 1))" "$_dir/node.md" # what it is for stays
	} >"$_dir/tmp/.node-$_inst" && mv -f "$_dir/tmp/.node-$_inst" "$_dir/node.md"
	(
		trap 'kill "$_sleep" 2>/dev/null; exit' TERM
		while :; do
			sleep "$_refresh" 2>/dev/null &
			_sleep=$!
			wait $_sleep
			! xfer_gone "$_host" "$_ns" "$_pid" || exit # it was killed and could not say so
			xfer_refresh || { printf 'xfer: the live lock of %s is lost (somebody else may be %s by now)\n' "$_name" "$_name" >&2 && exit; }
		done
	) </dev/null >/dev/null &
	_refresher=$! _child='' _again=''
	export XFER_NODE="$_name" XFER_INSTANCE="$_inst"
	umask "$_umask"
	if [ "$_locale" = unset ]; then unset LC_ALL; else LC_ALL=$_locale; fi
	trap 'xfer_pass HUP' HUP
	trap 'xfer_pass TERM' TERM INT # what a shell starts in the background ignores INT
	if [ -t 0 ]; then
		"$@" # in the foreground, for ^C to reach it; a TERM is looked at when it has ended
		_status=$?
	else
		{ "$@" <&9 9<&- & } 9<&0 # in the background standard input would be /dev/null
		_child=$!
		[ -z "$_again" ] || kill -s TERM $_child # it came before there was a child
		while :; do
			_again=''
			wait $_child
			_status=$?
			[ -n "$_again" ] || break
		done
	fi
	trap '' HUP TERM INT
	kill $_refresher 2>/dev/null
	xfer_release
	exit $_status
}

# Passes a signal on to CMD, and has its end waited for again.
xfer_pass() {
	_again=1
	[ -z "$_child" ] || kill -s "$1" "$_child" 2>/dev/null
}

# ---- What the commands are made of ----

# Says what went wrong, with nothing in it that a terminal would obey, and ends the command.
xfer_die() {
	_status=$1 _message=$2
	case $_message in *[!\ -~]*) _message=$(printf %s "$_message" | tr -c ' -~' '?') ;; esac
	printf 'xfer: %s\n' "$_message" >&2
	exit "$_status"
}

# Splits a command line: the options that $1 allows go to _o_NAME, the first word to _first, the others, joined, to _words.
xfer_args() {
	_allowed=" $1 " _count=0 _first='' _words='' _dash='' _verbatim=''
	_o_as='' _o_kind='' _o_subject='' _o_priority='' _o_expires='' _o_key='' _o_re='' _o_all='' _o_take='' _o_peek='' _o_json=''
	_o_type='' _o_for='' _o_mine=''
	while shift && [ $# -gt 0 ]; do
		case $_verbatim$1 in
		--) _verbatim=1 && continue ;;
		-) _dash=1 && continue ;;
		-*)
			_name=${1#--} && _name=${_name%%=*} && _value=1
			case $_name in *[!a-z]*) _name=- ;; esac
			case $_allowed:$1 in
			*" $_name= "*:*=*) _value=${1#*=} ;;
			*" $_name= "*) [ $# -gt 1 ] || xfer_die 2 "--$_name needs a value" && shift && _value=$1 ;;
			*" $_name "*) ;;
			*) xfer_die 2 "no option $1 here (words that begin with a dash come after --; xfer.sh help lists the options)" ;;
			esac
			eval "_o_$_name=\$_value" && continue
			;;
		esac
		case $_count in 0) _first=$1 ;; 1) _words=$1 ;; *) _words="$_words $1" ;; esac
		_count=$((_count + 1))
	done
}

# The name that $1 means, folded, in _name; 1: it is no name for a Node [3].
xfer_name() {
	_name=$1
	case $1 in '' | *[!A-Za-z0-9._-]* | [._-]*) return 1 ;; *[A-Z]*) _name=$(printf %s "$1" | tr A-Z a-z) ;; esac
	case $_name in all | unknown) return 1 ;; esac
	[ ${#_name} -le 63 ]
}

# Finds the Node that $1 names: its own name in _name, its directory in _dir; 1: there is none. Refuses what is no name.
xfer_node() {
	xfer_name "$1" || xfer_die 2 "'$1' is not a Node name (1 to 63 of a-z 0-9 . _ -, the first a letter or digit; not all, not unknown)"
	_dir=$_root/nodes/$_name
	if [ -L "$_dir" ]; then
		_target=$(readlink "$_dir") && _target=${_target#./} && xfer_name "$_target" && [ "$_name" = "$_target" ] || return 1
		_dir=$_root/nodes/$_name
	fi
	[ -d "$_dir" ] && [ ! -L "$_dir" ]
}

# Makes what the Node in $1 lacks, and its parents.
xfer_make() {
	[ ! -L "$1" ] && { [ -d "$1" ] || [ ! -e "$1" ]; } || xfer_die 2 "$1 is no Node and in the way (remove it, or choose another name)"
	[ -d "$1/tmp" ] && [ -d "$1/cur" ] && [ -d "$1/sent" ] && [ -d "$1/new" ] && return
	mkdir -p "$1/tmp" "$1/cur" "$1/sent" "$1/new" || xfer_die 1 "can't make $1 (a sandbox may forbid it: allow writing to $_root)"
	xfer_sync "$1" "$_root/nodes" "$_root" || : # a directory that can't be synced is no failure
}

# fsync of files and directories [9].
xfer_sync() { [ "${XFER_DURABILITY:-}" = none ] || ! command -v sync >/dev/null || sync "$@"; }

# Who acts: its name in _me, its directory in _home; 1: that is no Node yet.
xfer_me() {
	_me=${_o_as:-${XFER_NODE:-}}
	xfer_node "${_me:-$(id -un)}"
	_status=$? _me=$_name _home=$_dir
	return $_status
}

# Goes to the directory of the Node that acts; the path of a Handoff says which. From there a Handoff is new/FILE or cur/FILE.
xfer_enter() {
	case $_first in "$_root"/nodes/*/*/*) _o_as=${_first#"$_root"/nodes/} && _o_as=${_o_as%%/*} ;; esac
	xfer_me || xfer_die 3 "no Node '$_me' in $_root (to make it: xfer.sh join $_me)"
	cd "$_home" || exit 1
}

# The time in _now (unix seconds) and _date, and $1 random bytes, as numbers, in _pool.
xfer_clock() {
	_bytes=$1
	# shellcheck disable=SC2046
	set -- $(date -u '+%s %Y-%m-%dT%H:%M:%S.000Z' && { [ "$1" = 0 ] || od -An -v -tu1 -N"$1" /dev/urandom; })
	[ $# = $((_bytes + 2)) ] || xfer_die 1 "no random bytes (is /dev/urandom there?)"
	_now=$1 _date=$2
	shift 2
	_pool=$*
}

# 8 digits of Crockford's base32 in _digits, for 8 bytes of the pool.
xfer_digits() {
	_digits='' _bytes=$_pool _pool=''
	set -- 0 1 2 3 4 5 6 7 8 9 a b c d e f g h j k m n p q r s t v w x y z
	for _byte in $_bytes; do
		if [ ${#_digits} -lt 8 ]; then eval "_digits=\$_digits\${$((_byte % 32 + 1))}"; else _pool="$_pool $_byte"; fi
	done
}

# A new id in _new, for 10 bytes of the pool [4]. A shell has no microseconds: what stands after M is random at first, and then above
# what this Node sent in the same second, so that its Handoffs sort as they were sent.
xfer_id() {
	xfer_digits
	xfer_host
	set -- $_pool
	_micro=$(($1 * 256 + $2))
	for _before in "$_home/sent/$_now".M[0-9][0-9][0-9][0-9][0-9][0-9]R*; do :; done
	_before=${_before##*.M} && _before=${_before%%R*}
	case $_before in ??????) _micro=$((1$_before - 999999 + $1)) ;; esac
	[ $_micro -lt 1000000 ] || _micro=999999
	_micro=$((1000000 + _micro))
	_new=$_now.M${_micro#1}R$_digits.$_host
	case $_host in *[!A-Za-z0-9._-]*) _new=$(printf %s "$_new" | tr -c A-Za-z0-9._- _) ;; esac
	shift 2
	_pool=$*
}

# This host's name in _host.
xfer_host() { read -r _host 2>/dev/null </proc/sys/kernel/hostname || _host=$(uname -n); }

# The bytes of $1; on a terminal without what it would obey [11].
xfer_print() { if [ -t 1 ]; then LC_ALL=C tr '\000-\010\013-\037\177' '?' <"$1"; else cat "$1"; fi; }

# Only these are Handoffs; nothing else is ever opened.
xfer_regular() { [ -f "$1" ] && [ ! -L "$1" ]; }

# The bytes of the file $1 in _size; none when it is gone. wc may read all of them.
xfer_size() {
	read -r _ _ _ _ _size _ <<-END
		$(ls -dln -- "$1" 2>/dev/null)
	END
}

# Takes the name of $1 apart [4]: _id; fields A (_a), E (_e), L (_l: until _end, _by an instance) and _more; _flags. Its _state.
xfer_split() {
	_id=${1##*/} _a='' _e='' _l='' _end=0 _by='' _more='' _state=queued
	_fields=${_id%%[:\;]*}
	_flags=${_id#"$_fields"}
	case $_flags in ?2,*) _flags=${_flags#?2,} ;; *) _flags='' ;; esac
	_id=${_fields%%,*}
	_fields=${_fields#"$_id"}
	while [ -n "$_fields" ]; do
		_fields=${_fields#,}
		_field=${_fields%%,*}
		_fields=${_fields#"$_field"}
		case $_field in
		A=*) _a=${_a:-$_field} ;;
		E=*) _e=${_e:-${_field#E=}} && _e=${_e:-failed} ;;
		L=*) _l=${_l:-$_field} ;;
		*) _more=$_more,$_field ;;
		esac
	done
	case $_l in L=[0-9]*.?*) _end=${_l#L=} && _end=${_end%%.*} && _by=${_l#*.} ;; esac
	case $_end in *[!0-9]* | ?????????????*) _end=0 ;; esac # can't be read: it has passed
	[ "${1%%/*}" != new ] || return 0                        # the directory is the stronger word
	if [ -n "$_e" ]; then _state=$_e; elif [ -n "$_l" ]; then _state=taken; else
		case $_flags in *R*) _state=answered ;; *S*) _state='read' ;; *T*) _state=recalled ;; esac
	fi
}

# The one place that renames a Handoff [6]: $1 by step $2. Its new path in _path. 1: it is somebody else's by now, or stuck.
xfer_step() {
	xfer_split "$1"
	_path=cur _drop=SRTF _add=T
	case $2 in
	take) _add='' _drop=SRT _l=L=$((_now + _hold)).$_inst ;;
	new) _path=new _add='' _drop=SRT${_e:+F} ;;
	read) _add=S _drop=${_e:+FT} ;;
	answered) _add=RS _drop=${_e:+FT} ;;
	failed | unreadable) _add=F ;;
	esac
	[ "$2" = take ] || _l=''
	case $2 in take | new | read | answered) _e='' ;; *) _e=$2 ;; esac
	if [ $_path = new ]; then
		case ${_a#A=} in *[!0-9]* | ??????????*) _a='' ;; esac
		_a=${_a#A=} && _a=${_a#"${_a%%[!0]*}"} && _a=A=$((_a + 1)) # 08 would be octal
	fi
	_fields=${_a:+,$_a}${_e:+,E=$_e}${_l:+,$_l}
	[ -z "$_more" ] || _fields=$(printf %s "$_fields$_more" | tr , '\n' | sort -s -t= -k1,1 | tr '\n' ,) && _fields=${_fields%,}
	_set=''
	for _flag in F R S T; do
		case $_add in *$_flag*) _set=$_set$_flag && continue ;; esac
		case $_drop in *$_flag*) ;; *) case $_flags in *$_flag*) _set=$_set$_flag ;; esac ;; esac
	done
	case $_flags in *[!FRST]*) _set=$(printf %s "$_set$(printf %s "$_flags" | tr -d FRST)" | fold -b -w 1 | sort -u | tr -d '\n') ;; esac
	case $_path$_set in new) _path=new/$_id$_fields ;; *) _path=$_path/$_id$_fields:2,$_set ;; esac
	[ "$_path" != "$1" ] || return 0
	[ ! -d "$_path" ] && mv -f "$1" "$_path" 2>/dev/null && return # mv would move it into a directory
	[ ! -f "$1" ] || _stuck=$1
	return 1
}

# The file in the directories $2 whose id a person means by the piece $1: _path, and the id in _picked. 1: none.
xfer_pick() {
	_piece=${1%%[:\;,]*} _path='' _picked='' _best=0 _others=''
	[ ${#_piece} -ge 4 ] || xfer_die 2 "'$1' is too short for a piece of an id (4 characters or more)"
	case $_piece in */*) return 1 ;; esac
	for _in in $2; do
		for _file in "$_in"/*"$_piece"*; do
			case $_in in sent) [ -L "$_file" ] || [ -f "$_file" ] ;; *) xfer_regular "$_file" ;; esac || continue
			_id=${_file##*/} && _id=${_id%%[:\;,]*}
			case $_id in "$_piece") _rank=3 ;; *.M??????R"$_piece".*) _rank=2 ;; *"$_piece"*) _rank=1 ;; *) _rank=0 ;; esac
			if [ $_rank -gt $_best ]; then
				_best=$_rank _path=$_file _picked=$_id _others=''
			elif [ $_rank = $_best ] && [ "$_id" != "$_picked" ]; then _others="$_others $_id"; fi
		done
	done
	[ -z "$_path" ] || [ -z "$_others" ] || xfer_die 2 "'$1' fits $_picked$_others (say which)"
	[ -n "$_path" ]
}

# The Handoff that a person means by an id, or a worker by the path that `read --take` printed: _path, split.
xfer_find() {
	_wanted=''
	case ${1%/*} in "$_home/cur") xfer_split "cur/${1##*/}" && _wanted=$_by ;; "$1" | "$_home/new") ;; *) xfer_die 3 "'$1' is not in the Inbox of $_me" ;; esac
	if ! xfer_pick "${1##*/}" 'new cur'; then
		[ -z "$_wanted" ] || xfer_die 5 "'$1' is not in hand any more"
		xfer_die 3 "no Handoff '$1' in the Inbox of $_me (xfer.sh inbox --all lists them)"
	fi
	xfer_split "$_path"
}

# Refuses what is in another hand than the path said that xfer_find got, or than this instance's.
xfer_in_hand() {
	case $_state:$_wanted in taken:* | *:?*) [ "$_by" = "${_wanted:-$_inst}" ] || xfer_die 5 "$_id is not in hand here (it was never taken, or its lease has passed)" ;; esac
}

# Refuses to mark where another instance is live.
xfer_mine() {
	xfer_make "$_home"
	! xfer_alive || [ "$_holder" = "$_inst" ] || xfer_die 5 "$_me is live (process $_seen_pid on $_seen_host) and reads its own mail (look with inbox or read --peek)"
}

# Returns what is in hand and whose lease has passed, or all that the instance $1 has.
xfer_return() {
	for _file in cur/*,L=*; do
		xfer_split "$_file"
		[ "$_state" = taken ] || continue
		[ "$_end" -gt "$_now" ] && [ "$_by" != "${1:-}" ] || xfer_step "$_file" new || :
	done
}

# Tries $1 with each queued Handoff, the oldest first, until it works for one.
xfer_oldest() {
	for _file in new/*; do ! xfer_regular "$_file" || ! "$1" "$_file" || return 0; done
	for _file in cur/*; do # what a mail reader moved there unread
		case $_file in *,[EL]=* | *[:\;]2,*[RST]*) ;; *) ! xfer_regular "$_file" || ! "$1" "$_file" || return 0 ;; esac
	done
	return 1
}

# Takes $1 and leaves it in hand; 1: it is not to be had, has ended by its own words, or is so large that it waits to be named.
xfer_take() {
	xfer_size "$1"
	if [ -z "$_first" ] && [ "${_size:-0}" -gt "$_max" ]; then
		xfer_head "$1"
		[ $((_size - _h_offset)) -le "$_max" ] || { _large=$1 && return 1; }
	fi
	xfer_step "$1" take || return 1
	_taken=$_path _taken_id=$_id _why=''
	xfer_head "$_taken"
	if [ -n "$_h_key" ]; then
		xfer_same_key "$_h_from" "$_h_key"
		[ ! "$_top" \> "$_taken_id" ] || _why=replaced
	fi
	[ -z "$_h_expires" ] || [ "$_h_expires" -gt "$_now" ] || _why=expired
	[ -r "$_taken" ] || _why=unreadable
	[ -z "$_why" ] || { xfer_step "$_taken" $_why; return 1; }
	_path=$_taken
	xfer_split "$_path"
}

# As xfer_take, for who only looks.
xfer_peek() {
	xfer_head "$1"
	_path=$1
	[ -z "$_h_expires" ] || [ "$_h_expires" -gt "$_now" ]
}

# Ends a command that could not rename: for $1, unless the file is still there.
xfer_lost() {
	[ ! -f "$_stuck" ] || xfer_die 1 "can't rename $PWD/$_stuck (a sandbox may forbid it)"
	xfer_die 5 "$1"
}

# Says why there was nothing to read.
xfer_nothing() {
	[ ! -f "$_stuck" ] || xfer_lost
	[ -z "$_large" ] || xfer_die 3 "nothing to read for $_me but $_large, of more than $_max bytes (name it to read it)"
	xfer_die 3 "nothing to read for $_me in $_root"
}

# Sees to it that the id in _new sorts above those with the key $1, also when another clock was ahead [6].
xfer_above() {
	xfer_same_key "$_me" "$1"
	case ${_top%%.*} in '' | *[!0-9]*) return ;; esac
	[ ! "$_new" \> "$_top" ] || return 0
	_micro=${_top#*.M} _micro=${_micro%%R*} _top=${_top%%.*}
	case $_micro in [0-9][0-9][0-9][0-9][0-9][0-9]) _micro=$((1$_micro + 1)) ;; *) _micro=2000000 ;; esac
	[ $_micro -lt 2000000 ] || _top=$((_top + 1)) _micro=1000000
	_new=$_top.M${_micro#1}R${_new#*R}
}

# The highest id in new/ from $1 with the key $2, in _top. Replaces those that sort below the id $3.
xfer_same_key() {
	_top='' _from_key=$1:$2
	for _other in new/*; do
		xfer_head "$_other"
		[ "$_h_from:$_h_key" = "$_from_key" ] || continue
		_top=${_other##*/} && _top=${_top%%[:\;,]*}
		if [ "$_top" \< "${3:-}" ]; then xfer_step "$_other" replaced; fi
	done
}

# What the header of $1 says, fit for showing, in _h_from and so on. Of what is gone or no regular file: nothing.
xfer_head() {
	for _name_of in from kind expires key thread hops offset instance status host pid; do IFS='' read -r "_h_$_name_of"; done <<-END
		$(! xfer_regular "$1" || head -c 70000 "$1" 2>/dev/null | awk -v mode=fields "$xfer_awk")
	END
}

# The text for the Nodes $1: words in _body, or standard input in the file _spool. Checks the options that go with it.
xfer_text() {
	set -- $1
	case $_o_priority in '' | urgent | normal | low) ;; *) xfer_die 2 "--priority is urgent, normal or low" ;; esac
	_expires=$_o_expires _body='' _spool=''
	[ -z "$_expires" ] || xfer_duration expires "$_expires"
	if [ -z "$_dash" ] && [ $_count -gt 1 ]; then
		_body=$_words _size=${#_words}
	else
		[ -z "$_words" ] || [ -z "$_o_subject" ] || xfer_die 2 "two subjects (with - the words are the subject)"
		_o_subject=$_o_subject$_words
		xfer_id
		xfer_make "$_root/nodes/$1"
		xfer_spool "$_root/nodes/$1/tmp/$_new.in"
		[ -z "$_expires" ] || _now=$(date +%s) # standard input may have taken long
	fi
	[ -z "$_expires" ] || _expires=$(awk -v mode=expires -v now="$_now" -v duration="$_expires" "$xfer_functions")
	xfer_fits "nothing to send: the text is empty"
}

# Refuses what is no duration, of the option $1.
xfer_duration() {
	case ${2%[smhd]} in '' | "$2" | *[!0-9]* | ?????????*) xfer_die 2 "--$1 takes a duration (30s, 10m, 2h, 7d)" ;; esac
}

# Standard input in the file $1, which becomes _spool; its size in _size.
xfer_spool() {
	[ ! -t 0 ] || xfer_die 2 "the text is missing (give words, or pipe it in)"
	_spool=$1
	head -c $((_max + 1)) >"$_spool" || { rm -f "$_spool" && xfer_die 1 "can't write $_spool (is there space?)"; }
	_size=$(($(wc -c <"$_spool")))
}

# Refuses a text that is too large or, when $1 says why, empty.
xfer_fits() {
	[ $_size -gt "$_max" ] || { [ $_size -eq 0 ] && [ -n "$1" ]; } || return 0
	[ -z "$_spool" ] || rm -f "$_spool"
	[ $_size -gt 0 ] || xfer_die 2 "$1"
	xfer_die 2 "the text is $_size bytes${_spool:+ or more}, the limit is $_max (XFER_MAX_BYTES)"
}

# Delivers the text to the Nodes $1, as kind $2, with re $3, thread $4, hops $5. 1: to none of them; 6: not to all.
xfer_hand_off() {
	_kind=$2 _re=$3 _thread=$4 _hops=${5:-} _to='' _sent=0
	case ${XFER_HOPS:-} in '' | *[!0-9]* | ??????????*) ;; *) [ "$XFER_HOPS" -le "${_hops:-0}" ] || _hops=$XFER_HOPS ;; esac
	set -- $1
	xfer_make "$_home"
	for _name; do _to=$_to${_to:+, }$_name; done
	[ $# = 1 ] || _to="[$_to]"
	for _name; do
		cd "$_root/nodes/$_name" || xfer_die 1 "the Node $_name is gone"
		xfer_make "$PWD"
		xfer_presence
		xfer_id
		[ -z "$_o_key" ] || xfer_above "$_o_key"
		[ $# = 1 ] || _thread=${_thread:-$_new} # what the copies have in common
		_header=---$_nl
		xfer_fields from "$_me" to "$_to" kind "$_kind" subject "$_o_subject" date "$_date" re "$_re" thread "$_thread" \
			priority "$_o_priority" expires "$_expires" key "$_o_key" hops "$_hops" instance "$_inst"
		_header=$_header---$_nl
		if [ ${#_header} -le 65536 ] && xfer_deliver; then
			_sent=$((_sent + 1))
			printf 'queued for %s (%s)\t%s\n' "$_name" "$_presence" "$_new"
			[ -z "$_o_key" ] || { xfer_same_key "$_me" "$_o_key" && xfer_same_key "$_me" "$_o_key" "$_top"; }
		else
			printf 'xfer: not delivered to %s (is there space, is %s writable, is the header below 65536 bytes?)\n' "$_name" "$PWD" >&2
		fi
	done
	[ -z "$_spool" ] || rm -f "$_spool"
	[ $_sent = $# ] || return $((_sent ? 6 : 1))
}

# The one place that delivers [6]: into the Node it is in. Killed at any point it leaves a file in tmp/, or the Handoff. 1: no Handoff.
xfer_deliver() {
	set -C # never write to what is there
	{ printf %s "$_header$_body" && { [ -z "$_spool" ] || cat "$_spool"; }; } >"tmp/$_new"
	_status=$?
	set +C
	if [ $_status != 0 ] || ! xfer_sync "tmp/$_new" || ! mv -f "tmp/$_new" "new/$_new"; then rm -f "tmp/$_new" && return 1; fi
	xfer_sync new || : # it is delivered, and must not be sent again for this
	ln -s "../../$_name" "$_home/sent/$_new" 2>/dev/null || printf '%s\n' "../../$_name" 2>/dev/null >"$_home/sent/$_new" || :
}

# Adds lines to _header, of keys and values: verbatim where a shell may write so, else as JSON strings [5].
xfer_fields() {
	while [ $# -gt 0 ]; do
		_value=$2
		case $1:$_value in
		to:*) ;;
		*[!\ -~]* | $1:[\"\[\ ]* | *\ ) _value=$(VALUE=$_value awk -v mode=quote "$xfer_functions") ;;
		esac
		[ -z "$_value" ] || _header="$_header$1: $_value$_nl"
		shift 2
	done
}

# Who is there, in the words of a receipt, in _presence.
xfer_presence() {
	_presence=away
	if xfer_alive; then
		xfer_head node.md
		_presence="live${_h_status:+, $_h_status}"
	elif xfer_regular node.md && _age=$(date -r node.md +%s 2>/dev/null); then
		_age=$((_now > _age ? _now - _age : 0))
		_unit=s
		for _next in 60:min 60:h 48:d; do
			[ $_age -ge ${_next%:*} ] || break
			_unit=${_next#*:}
			case $_unit in d) _age=$((_age / 24)) ;; *) _age=$((_age / 60)) ;; esac
		done
		_presence="away, last seen $_age $_unit ago"
	fi
}

# ---- The live lock [7] ----

# Whether somebody is live on the Node it is in, at one look: the instance in _holder.
xfer_alive() {
	for _file in live.lock/*; do
		xfer_regular "$_file" && ! xfer_dead "$_file" || continue
		_probe=tmp/.now-$$ # the filesystem's clock
		true 2>/dev/null >"$_probe"
		xfer_age "$_file" "$_probe" || _age=$_stale$_refresh
		rm -f "$_probe"
		[ $_age -ge $((_stale + _refresh)) ] || { _holder=${_file##*/} && return; }
	done
	return 1
}

# Whether the process that made the lock file $1 is known to be dead. What the file says in _seen_host and _seen_pid.
xfer_dead() {
	_seen_host='' _seen_ns='' _seen_pid=''
	read -r _seen_host _seen_ns _seen_pid <<-END || :
		$(! xfer_regular "$1" || head -c 1000 "$1" 2>/dev/null)
	END
	xfer_gone "$_seen_host" "$_seen_ns" "$_seen_pid"
}

# Whether the process $3 of host $1 and pid namespace $2 is known to be gone. A zombie is: its parent may never ask for it.
xfer_gone() {
	[ -n "$_ns" ] || { xfer_host && _ns=$(readlink /proc/self/ns/pid) || _ns=-; }
	[ "$1 $2" = "$_host $_ns" ] && [ "$_ns" != - ] || return 1
	case $3 in '' | 0* | *[!0-9]*) return 1 ;; esac
	_stat=''
	read -r _stat 2>/dev/null <"/proc/$3/stat" || :
	case $_stat in *') '[ZX]' '*) return ;; '') ! kill -0 "$3" 2>/dev/null ;; *) return 1 ;; esac
}

# How many seconds before $2 the file $1 was refreshed, in _age, and when, in _refreshed. 1: it is gone.
xfer_age() {
	_refreshed=$(date -r "$1" +%s 2>/dev/null) && _age=$(date -r "$2" +%s 2>/dev/null || date +%s) && _age=$((_age - _refreshed))
}

# Acquires the lock _lock of the Node in _dir, as the file _own, for the process $1. Says who holds it and ends with 5.
xfer_acquire() {
	_pid=$1 _seen=' ' _tries=0
	xfer_gone - - - || : # for _host and _ns
	while :; do
		mkdir "$_lock" 2>/dev/null
		if ! (set -C && printf '%s %s %s\n' "$_host" "$_ns" "$_pid" >"$_own") 2>/dev/null; then
			[ ! -e "$_own" ] || xfer_die 5 "$_name is live, held by this instance ($_inst)"
			_tries=$((_tries + 1))
			[ $_tries -lt 100 ] || xfer_die 1 "can't write $_lock (is it a directory, is there space?)"
			continue # a holder that left took the directory with it
		fi
		_list=again _busy='' _watch=''
		while [ -n "$_list" ]; do
			_list=''
			for _file in "$_lock"/*; do
				[ "$_file" != "$_own" ] && xfer_regular "$_file" || continue
				if xfer_dead "$_file"; then rm -f "$_file" && _list=again && continue; fi
				xfer_age "$_file" "$_own" || continue
				case $_age:$_seen in
				*:*" ${_file##*/}:$_refreshed "*) rm -f "$_file" && _list=again ;;
				*) if [ $_age -lt "$_stale" ]; then _busy="process $_seen_pid on $_seen_host" _rival=${_file##*/} _rival_age=$_age; else _watch="$_watch${_file##*/}:$_refreshed "; fi ;;
				esac
			done
		done
		[ -n "$_busy$_watch" ] || [ ! -e "$_own" ] || return 0
		xfer_release
		if [ -n "$_busy" ]; then # by one that is there, or that tries just as we do
			_tries=$((_tries + 1))
			xfer_head "$_dir/node.md"
			[ "$_h_instance" != "$_rival" ] && [ $_rival_age -lt 2 ] && [ $_tries -lt 12 ] || xfer_die 5 "$_name is live, held by $_busy (choose another name, or end that one)"
			xfer_clock 1
			sleep "0.$((_pool % 4))$((_pool % 10))" 2>/dev/null || sleep 1
		else
			sleep "$_stale"
			_seen=$_seen$_watch # with this time once; with the same time again it is stale
		fi
	done
}

# Refreshes the lock, never making it anew; 1: it is lost.
xfer_refresh() {
	touch -c "$_own" 2>/dev/null
	[ -e "$_own" ]
}

# Lets the name go. Another's lock stays.
xfer_release() {
	rm -f "$_own"
	rmdir "$_lock" 2>/dev/null || :
}

# ---- Cards [14]: from the directory of the Board ----

# Only these are Cards. A repository's README is none.
xfer_is_card() {
	case $1 in [Rr][Ee][Aa][Dd][Mm][Ee].md) return 1 ;; esac
	xfer_regular "$1"
}

# The Card that a person means by $1: its file name in _card.
xfer_card() {
	_piece=${1##*/} && _piece=${_piece%.md} _card='' _best=0 _others=''
	case $_piece in *[A-Z]*) _piece=$(printf %s "$_piece" | tr A-Z a-z) ;; esac
	for _file in *.md; do
		xfer_is_card "$_file" || continue
		_id=${_file%.md}
		case $_id in *[A-Z]*) _id=$(printf %s "$_id" | tr A-Z a-z) ;; esac
		case $_id:${#_piece} in "$_piece":*) _rank=3 ;; *-"$_piece":6) _rank=2 ;; *"$_piece"*:*) _rank=1 ;; *) continue ;; esac
		if [ $_rank -gt $_best ]; then _best=$_rank _card=$_file _others=''; elif [ $_rank = $_best ]; then _others="$_others $_file"; fi
	done
	[ $_best = 3 ] || [ ${#_piece} -ge 3 ] || xfer_die 2 "'$1' is too short for a piece of a Card's name (3 characters or more)"
	[ -n "$_card" ] || xfer_die 3 "no Card '$1' in $PWD (xfer.sh board list --all lists them)"
	[ -z "$_others" ] || xfer_die 2 "'$1' fits $_card$_others (say which)"
}

# Says what was done to the Card, in the words $@, with nothing in its name that a terminal would obey.
xfer_receipt() {
	case $_card in *[!\ -~]*) _card=$(VALUE=$_card awk -v mode=shown "$xfer_functions") ;; esac
	printf '%s\t' "$@"
	printf '%s\n' "$_card"
}

# The text of an Entry or a Card: words in _body, or standard input in the file _spool, which is read without a - too when $1 says that
# there must be a text.
xfer_board_text() {
	_body=$_words _size=${#_words}
	if [ -n "$_dash" ] || [ "$_count:${1-}" = 1:must ]; then
		[ $_count -lt 2 ] || xfer_die 2 "words, or - for standard input, not both"
		xfer_clock 24 # for the names of what it writes
		xfer_digits
		xfer_spool ".locks/$_digits.in"
	fi
	xfer_fits "${1:+nothing to add: the text is empty (give words, or - for standard input)}"
}

# The text, as it may stand in a Card: no line of it reads as structure. One newline more than it has.
xfer_escaped() {
	{ printf %s "$_body" && { [ -z "$_spool" ] || cat "$_spool"; } && echo; } |
		sed -e 's/^\\*### /\\&/' -e 's/^\\*<!-- /\\&/' -e 's/^\\*<<<<<<</\\&/' -e 's/^\\*=======/\\&/' -e 's/^\\*>>>>>>>/\\&/' -e 's/^\\*|||||||/\\&/'
}

# The one place that appends to a Card: the text as an Entry of type $1, with its id in _digits. Its file is written before, so that a
# full disk is noticed there, and that one write appends all of it. Replaced meanwhile: again, under the same id.
xfer_append() {
	xfer_clock 8
	xfer_digits
	_entry=.locks/$_digits.new _tries=0
	{
		printf '\n### %s · %s · %s · %s\n\n' "$_digits" "$1" "$_me" "${_h_date:-$_date}" && xfer_escaped && printf '<!-- %s -->\n' "$_digits"
	} >"$_entry" || _tries=10
	rm -f "$_spool"
	while [ $_tries -lt 10 ] && xfer_regular "$_card"; do
		_tries=$((_tries + 1)) _wrote=''
		{
			dd ibs=65536 obs=$(($(wc -c <"$_entry"))) <"$_entry" >&3 2>/dev/null && _wrote=1 && { xfer_sync "./$_card" || :; }
			[ -z "$_wrote" ] || [ ! "$_card" -ef /dev/fd/3 ] || { rm -f "$_entry" && return; }
		} 2>/dev/null 3>>"$_card"
		[ -n "$_wrote" ] || break
	done
	rm -f "$_entry"
	xfer_regular "$_card" || xfer_die 3 "$_card is gone"
	xfer_die 1 "can't add to $PWD/$_card (may it be written, is there space?)"
}

# Waits while the Card is being replaced: what was appended may be copied only now, behind what others append. 1: it is still.
xfer_settled() {
	for _try in 0 1 2 3 4 5 6 7 8 9 10 11; do [ ! -e ".locks/$_card.old" ] || sleep 1; done
	[ ! -e ".locks/$_card.old" ]
}

# Reads Cards as $1 says, list or holder; their names come from standard input, each with a / behind it. Of the _large ones the front matter.
xfer_cards() { LARGE=$_large awk -v RS=/ -v mode="$1" -v all="$_o_all" -v mine="$_o_mine" -v now="$_date" -v me="$_me" -v on="$_on" "$xfer_awk_cards"; }

# Who holds _card, in _h_holder, _h_on and _h_until; 1: it is somebody else. In _h_over whether it is done or removed. In _h_date the time, but after what who acts has added: a merge
# orders by date, and a release must not come before its claim. Looks again when the last Entry may be just being written.
xfer_holder() {
	while :; do
		xfer_clock 0
		for _name_of in date holder on until torn over; do IFS='' read -r "_h_$_name_of"; done <<-END
			$(printf '%s/' "$_card" | xfer_cards holder)
		END
		[ "$_h_torn" = 1 ] && xfer_age "./$_card" '' && [ "${_age#-}" -lt 2 ] && sleep 1 || break
	done
	if [ -z "$_h_date" ] || [ ! -r "$_card" ]; then # nobody knows who holds it
		rm -f "$_spool"
		xfer_regular "$_card" || xfer_die 3 "$_card is gone"
		xfer_die 1 "can't read $PWD/$_card"
	fi
	case $_h_holder@$_h_on in @ | "$_me@" | "$_me@$_on") ;; *) return 1 ;; esac
}

# Ends the command since somebody else holds the Card.
xfer_held() {
	[ -z "$_spool" ] || rm -f "$_spool"
	xfer_die 5 "$_h_holder on ${_h_on:-no host} holds $_card until $_h_until"
}

# ---- Headers [5] ----

# What both kinds of files need; by itself, without input, by mode: quote (a header value), json and shown (any), slug, expires (a date).
# Regular expressions are written so that every awk reads them alike, in bytes.
xfer_functions='
function trim(s) { gsub(/^[ \t]+|[ \t]+$/, "", s); return s }
function is_json(s) { return s ~ /^"([^"\\\001-\037]|\\["\\\/bfnrt]|\\u[0-9A-Fa-f][0-9A-Fa-f][0-9A-Fa-f][0-9A-Fa-f])*"$/ }
# s as UTF-8: what is none becomes U+FFFD (and sets bad). How "json" or "shown": control characters are escaped (and set escaped)
function clean(s, how,   all, o, i, k, t, c, u) {
	for (i = 1; i <= length(s); i += k) {
		if (length(o) > 2000) { all = all o; o = "" } # appending to a long string copies all of it
		t = substr(s, i, 64)
		k = 1
		if (match(t, /^[]!#-[^-~ ]+/)) { k = RLENGTH; o = o substr(t, 1, k); continue }
		c = substr(t, 1, 1)
		u = how != "" && c == "\377" ? 0 : ord[c] # how string() writes NUL
		if (u > 127) {
			u = 160
			if (match(t, utf8)) {
				k = RLENGTH
				c = substr(t, 1, k)
				if (c ~ /^\302[\200-\237]$/) u = ord[substr(c, 2)]
				else if (c ~ /^(\342\200[\250-\256]|\342\201[\246-\251]|\357\273\277)$/) u = ord[substr(c, 1, 1)] % 16 * 4096 + ord[substr(c, 2, 1)] % 64 * 64 + ord[substr(c, 3)] % 64
			}
			else { k = match(t, part) ? RLENGTH : 1; c = "\357\277\275"; bad = 1 }
		}
		if (how == "json" && (c == "\"" || c == "\\")) c = "\\" c
		else if (how != "" && (u < 32 || (u > 126 && u != 160))) { c = sprintf(how == "json" || u > 160 ? "\\u%04x" : "\\x%02x", u); escaped = 1 }
		o = o c
	}
	return all o
}
function quote(s) { return "\"" clean(s, "json") "\"" }
function hex(s,   i, n) { for (i = 1; i < 5; i++) n = n * 16 + index("0123456789abcdef", tolower(substr(s, i, 1))) - 1; return n }
function encode(u) {
	if (u < 128) return u ? chr[u] : "\377" # no UTF-8 has this byte
	if (u < 2048) return chr[192 + int(u / 64)] chr[128 + u % 64]
	if (u < 65536) return chr[224 + int(u / 4096)] chr[128 + int(u / 64) % 64] chr[128 + u % 64]
	return chr[240 + int(u / 262144)] chr[128 + int(u / 4096) % 64] chr[128 + int(u / 64) % 64] chr[128 + u % 64]
}
# what a JSON string says
function string(s,   all, o, i, n, c, u) {
	s = substr(s, 2, length(s) - 2)
	while (match(s, /^([^\\]+|\\[^u]|\\u....)/)) {
		if (length(o) > 2000) { all = all o; o = "" }
		c = substr(s, 1, RLENGTH)
		if (c ~ /^\\u/) {
			u = hex(substr(c, 3))
			if (u >= 55296 && u < 56320 && substr(s, 7, 6) ~ /^\\u[dD][c-fC-F]/) { u = (u - 55296) * 1024 + hex(substr(s, 9, 4)) + 9216; s = substr(s, 7) }
			c = encode(u >= 55296 && u < 57344 ? 65533 : u)
		} else if (c ~ /^\\/) { c = substr(c, 2); if (i = index("bfnrt", c)) c = substr("\b\f\n\r\t", i, 1) }
		o = o c
		s = substr(s, RLENGTH + 1)
	}
	return all o
}
# the inside of a list as JSON, or nothing when it is none
function list(s,   o, t) {
	while (match(s, /^("([^"\\]|\\.)*"|[^][",])+/)) {
		t = trim(substr(s, 1, RLENGTH))
		s = substr(s, RLENGTH + 1)
		if (t == "" || t == "\"\"" || (t ~ /"/ && !is_json(t)) || s !~ /^(,.|$)/) return ""
		o = o (o == "" ? "" : ",") quote(t ~ /^"/ ? string(t) : t)
		if (s == "") return o
		s = substr(s, 2)
	}
}
function days(y, m, d) { if (m < 3) { y--; m += 12 }; return y * 365 + int(y / 4) - int(y / 100) + int(y / 400) + int((m * 153 - 457) / 5) + d - 719469 }
function day(n,   y, m) {
	for (y = 1971 + int(n / 365); days(y, 1, 1) > n; y--) continue
	for (m = 12; days(y, m, 1) > n; m--) continue
	return sprintf("%04d-%02d-%02d", y, m, n - days(y, m, 1) + 1)
}
function date(t) { if (t > 99999999999) t = 0; return sprintf("%sT%02d:%02d:%02d.000Z", day(int(t / 86400)), t / 3600 % 24, t / 60 % 60, t % 60) }
# unix seconds of an RFC 3339 date in UTC; nothing when it is none, as 30 February
function epoch(s,   n) {
	if (s !~ /^[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-5][0-9]:[0-5][0-9](\.[0-9]+)?Z$/ || length(s) > 30 || substr(s, 12, 2) > 23) return ""
	n = days(substr(s, 1, 4) + 0, substr(s, 6, 2) + 0, substr(s, 9, 2) + 0)
	return day(n) == substr(s, 1, 10) ? sprintf("%.0f", n * 86400 + substr(s, 12, 2) * 3600 + substr(s, 15, 2) * 60 + substr(s, 18, 2)) : ""
}
# such a date, so that dates compare as strings; nothing when it is none
function norm(s) { return epoch(s) == "" ? "" : substr(s, 1, 19) "." substr(substr(s, 21, length(s) - 21) "000000000", 1, 9) }
BEGIN {
	for (i = 1; i < 256; i++) { chr[i] = sprintf("%c", i); ord[chr[i]] = i }
	utf8 = "^([\302-\337][\200-\277]|\340[\240-\277][\200-\277]|[\341-\354\356\357][\200-\277][\200-\277]|\355[\200-\237][\200-\277]|\360[\220-\277][\200-\277][\200-\277]|[\361-\363][\200-\277][\200-\277][\200-\277]|\364[\200-\217][\200-\277][\200-\277])"
	part = "^(\340[\240-\277]|[\341-\354\356\357][\200-\277]|\355[\200-\237]|\360[\220-\277][\200-\277]?|[\361-\363][\200-\277][\200-\277]?|\364[\200-\217][\200-\277]?)"
	s = ENVIRON["VALUE"]
	if (mode == "expires") print date(now + duration * (duration ~ /s$/ ? 1 : duration ~ /m$/ ? 60 : duration ~ /h$/ ? 3600 : 86400))
	if (mode == "quote") { t = quote(s); print (escaped || s ~ /^["[ ]/ || s ~ / $/) ? t : clean(s) }
	if (mode == "json") print quote(s)
	if (mode == "shown") print clean(s, "shown")
	if (mode == "slug") { s = tolower(s); gsub(/[^a-z0-9._-]+/, "-", s); sub(/^[^a-z0-9]+/, "", s); s = substr(s, 1, 48); sub(/[.-]+$/, "", s); print s ~ /^(all|unknown)?$/ ? "card" : s }
}'

# Reads the first 70,000 bytes of a Handoff. Modes: fields (a line each, for xfer_head), line (for inbox), doctor (JSON).
xfer_awk=$xfer_functions'
function warn(code) { if (!index(warnings, code)) warnings = warnings (warnings == "" ? "" : ",") quote(code) }
function fence(s) { return s == "---" || (s == "---\r" && at <= size) }
function header(s,   key, json) {
	sub(/\r$/, "", s)
	if (!match(s, /^[A-Za-z_][A-Za-z0-9_-]*:/) || substr(s, RLENGTH + 1) !~ /^([ \t]|$)/) { warn("line"); return }
	key = tolower(substr(s, 1, RLENGTH - 1))
	s = trim(substr(s, RLENGTH + 1))
	if (key == "to" && s ~ /^\[.*\]$/ && (json = list(substr(s, 2, length(s) - 2))) != "") json = "[" json "]"
	else { if (s ~ /^"/ && is_json(s)) s = string(s); json = quote(s) }
	if (s == "") return
	if (key in value) { warn("duplicate"); return }
	value[key] = clean(s, "shown")
	fields = fields (fields == "" ? "" : ",") quote(key) ":" json
}
BEGIN { if (size == "") size = 1e15 }
{ at += length($0) + 1 }
NR == 1 { open = fence($0); if (!open && /^\357\273\277/ && fence(substr($0, 4))) warn("bom"); if (open) next }
open && fence($0) && at - (at > size) <= 65536 { open = 0; offset = at - (at > size); next }
open { lines[++n] = $0; next }
top == "" && at - length($0) - offset < 4096 { top = $0; gsub(/^[ \t\r\f\v]+|[ \t\r\f\v]+$/, "", top); if (length(top) > 200) { top = substr(top, 1, 200); sub(/[\300-\377][\200-\277]*$/, "", top) } }
END {
	if (open) { warn("unclosed"); top = "---" }
	if (offset) {
		for (i = 1; i <= n; i++) lines[i] = clean(lines[i])
		if (bad) warn("utf8")
		for (i = 1; i <= n; i++) header(lines[i])
		expires = epoch(value["expires"])
		if ((value["date"] != "" && epoch(value["date"]) == "") || (value["expires"] != "" && expires == "")) warn("date")
		if (value["hops"] !~ /^[0-9]*$/ || length(value["hops"]) > 9) { warn("number"); value["hops"] = 0 }
	}
	if (mode == "doctor") {
		printf "{\"schema\":\"xfer.doctor/1\",\"findings\":[],\"files\":[{\"file\":%s,\"header\":%s,\"fields\":{%s},", quote(ENVIRON["FILE"]), offset ? "true" : "false", fields
		printf "\"body\":{\"offset\":%d,\"bytes\":%d},\"warnings\":[%s]}]}\n", offset, size - offset, warnings
		exit (warnings != "")
	}
	from = "from" in value ? value["from"] : "unknown"
	kind = "kind" in value ? value["kind"] : "task"
	if (mode == "fields") {
		print from "\n" kind "\n" expires "\n" value["key"] "\n" value["thread"] "\n" value["hops"] + 0 "\n" offset + 0
		print value["instance"] "\n" value["status"] "\n" value["host"] "\n" value["pid"]
		exit
	}
	id = ENVIRON["ID"]; state = ENVIRON["STATE"]; sent = value["date"]
	if (state == "queued" && expires != "" && expires + 0 <= now) state = "expired"
	rank = state == "queued" ? 0 : state == "taken" ? 1 : state == "failed" || state == "unreadable" ? 2 : 3
	if (rank == 3 && !all) exit
	sent = epoch(sent) == "" ? date(id ~ /^[0-9]+\./ ? id + 0 : time) : substr(norm(sent), 1, 23) "Z"
	id = clean(id, "shown")
	printf "%d\037%s\037%s\t%s\t%s\t%s\t%s\t%s\n", rank, id, id, sent, clean(state, "shown"), kind, from, "subject" in value ? value["subject"] : clean(top, "shown")
}'

# Reads Cards [14]. Modes: list (a line each, with the date to sort by before), holder (lines, for xfer_holder), date (that of my next Entry:
# reads the end of a Card). Of YAML it knows keys with one line of text, bare or in quotes.
xfer_awk_cards=$xfer_functions'
function scalar(s) {
	s = trim(s)
	if (s ~ /^"/ && is_json(s)) return string(s)
	if (s ~ /^\047.*\047$/) { s = substr(s, 2, length(s) - 2); gsub(/\047\047/, "\047", s); return s }
	sub(/[ \t]+#.*$/, "", s)
	return s
}
# how many fields the header s of an Entry has, and them in h_id to h_date; 0: it is a heading
function header(s,   f, n, fields, i) {
	n = fields = s ~ /^### / ? split(substr(s, 5), f, / \302\267 /) : 0
	if (n < 2) return 0
	for (i = 1; i <= n; i++) f[i] = trim(f[i])
	i = 1
	h_id = f[1] ~ "^" id8 "$" && (n > 2 || f[1] ~ /[0-9]/) ? f[i++] : "" # of two fields the first may be a type of 8 letters
	h_type = length(f[i]) < 33 && f[i] ~ /^[a-z][a-z0-9_-]*$/ ? f[i++] : "note"
	h_date = norm(f[n] ~ /^[0-9-]*$/ ? f[n] "T00:00:00Z" : f[n])
	if (h_date != "" || (h_id != "" && i < n && f[n] ~ /^[0-9TZ:.-]*$/)) n-- # with an id it is an Entry, cut short
	h_by = i > n ? "unknown" : f[i]
	return i >= n && length(h_by) < 64 && h_by ~ /^[A-Za-z0-9][A-Za-z0-9._-]*$/ ? fields : 0
}
# which lines belong to which side of a merge that git left: 1, 2, 0 (both), 3 (neither)
function sides(   i, s, side, found) {
	split("", side_of)
	for (i = 1; i <= n; i++) {
		s = line[i]
		sub(/\r$/, "", s)
		side_of[i] = 3
		if (s ~ /^<<<<<<<( |$)/) { if (side) break; side = found = 1 }
		else if (side == 1 && s ~ /^\|\|\|\|\|\|\|( |$)/) side = 3
		else if ((side == 1 || side == 3) && s == "=======") side = 2
		else if (side == 2 && s ~ /^>>>>>>>( |$)/) side = 0
		else side_of[i] = side + 0
	}
	if (found && !side) return 1
	split("", side_of) # they do not fit together: text
	return 0
}
# the Entry that ends here counts, unless it stood before
function finish(   k) {
	if (!open) return
	open = 0
	raw = raw rest
	sub(/[\r\n]+$/, "", raw)
	if (id == "") id = "\n" raw # in place of the hash: the same for the same bytes alone
	k = seen[id]
	if (k && (raw == bytes[k] || (torn && index(bytes[k], raw) == 1))) return
	if (k && (!cut[k] || index(raw, bytes[k]) != 1)) { id = "\n" raw; k = 0; if (seen[id]) return }
	if (!k) k = seen[id] = ++m
	if (when != "") before = when # what has no date stands where the one before it does
	place[k] = before; key[k] = before id; cut[k] = torn; bytes[k] = raw
	what[k] = type; author[k] = by; dated[k] = when; first[k] = top
}
function parse(side,   i, s, some, fields) {
	before = made
	for (i = start; i <= n; i++) {
		if (side_of[i] && side_of[i] != side) continue
		s = line[i]
		sub(/\r$/, "", s)
		fields = header(s)
		if (fields || (!open && some && s ~ /[^ \t]/)) {
			finish()
			stray = !fields
			if (stray) header("### note \302\267 unknown")
			id = h_id; type = h_type; by = h_by; when = h_date
			open = torn = some = 1
			lines = 0
			raw = top = ""
			rest = line[i] "\n"
		} else if (open) {
			if (length(rest) > 2000) { raw = raw rest; rest = "" } # appending to a long string copies all of it
			rest = rest line[i] "\n"
			if (!stray && (id == "" ? s ~ "^<!-- " id8 " -->$" : s == "<!-- " id " -->")) { torn = 0; finish() }
			else if (++lines < 3 && top == "") top = s # behind the empty line that most headers have
		}
	}
	finish()
}
# reads a file: its front matter in front, its m Entries, their numbers as they are to be read in order
function read(path, large,   i, j, s, size) {
	split("", line); split("", front); split("", seen); split("", order)
	n = m = 0
	while ((getline s < path) > 0) {
		line[++n] = s
		if (large && (size += length(s) + 1) > 65536) break
	}
	close(path)
	sub(/^\357\273\277/, "", line[1])
	start = 1
	size = 0
	for (i = 1; i <= n && start == 1; i++) {
		s = line[i]
		sub(/\r$/, "", s)
		# behind a whole header a --- is some text, and closes nothing
		if ((size += length(s) + 1 + (s != line[i])) > 65536 || (i == 1 && s != "---") || (header(s) == 4 && s ~ /Z$/)) break
		if (i > 1 && s == "---") start = i + 1
		if (match(s, /^(title|created_by|created_at):[ \t]/)) { j = substr(s, 1, RLENGTH - 2); if (!(j in front)) front[j] = scalar(substr(s, RLENGTH)) }
	}
	if (start == 1) split("", front)
	made = norm(front["created_at"])
	if (large) return
	if (!sides()) { parse(0); for (i = 1; i <= m; i++) order[i] = i; return }
	parse(1)
	parse(2)
	for (i = 1; i <= m; i++) {
		for (j = i; j > 1 && key[i] < key[order[j - 1]]; j--) order[j] = order[j - 1]
		order[j] = i
	}
}
# what the Entries come to: ended, gone, holder (NAME@HOST) and until; latest: the last date of mine
function state(   i, j, f, w, t, who, end, since, claims) {
	holder = latest = ended = gone = ""
	for (j = 1; j <= m; j++) {
		i = order[j]
		t = what[i]
		w = dated[i]
		split(first[i], f, " ")
		if (t != "claim" && t != "release") ended = t == "done"
		if (t == "removed" || t == "restored") gone = t == "removed"
		if (t == "done") split("", end)
		if (t == "claim" && !ended) { # what is done is not to be done again
			if (first[i] !~ /^until [^ \t]+ on [^ \t]/) split("", f)
			who = author[i] "@" f[4]
			until = norm(f[2])
			if (until == "" && w != "") until = after(w, 7200)
			if (end[who] <= w) { end[who] = ""; since[who] = ++claims } # a new one, behind the others
			if (end[who] < until) end[who] = until
		}
		if (t == "release") {
			if (first[i] !~ /^on [^ \t]/) split("", f)
			for (who in end) if (who == author[i] "@" f[2] || who == author[i] "@" || (f[2] == "" && index(who, author[i] "@") == 1)) end[who] = ""
		}
		if (author[i] == me) mine_at(w)
	}
	for (who in end) if (end[who] > now && (holder == "" || since[who] < since[holder])) holder = who
	until = end[holder]
}
# the last date of mine may be w; a clock that is off by more does not count
function mine_at(w) { if (w > latest && w < after(now, 60)) latest = w }
# now, but after the last date of mine
function later(   ms) { ms = substr(latest, 21, 3) + 1; return shown(latest < now ? now : substr(after(latest, ms > 999), 1, 20) sprintf("%03d", ms % 1000)) }
# a date so many seconds later
function after(s, seconds) { return substr(date(epoch(substr(s, 1, 19) "Z") + seconds), 1, 19) substr(s, 20) }
function shown(s) { return s == "" ? "" : substr(s, 1, 23) "Z" }
BEGIN { now = norm(now); c = "[0-9a-hjkmnp-tv-z]"; id6 = c c c c c c; id8 = id6 c c }
mode == "date" { sub(/\r$/, ""); if (header($0) == 4 && h_by == me) mine_at(h_date); next }
{ names[++cards] = $0 }
END {
	if (mode == "date") print later()
	RS = "\n"
	for (c = 1; c <= cards; c++) {
		file = names[c]
		large = index("\n" ENVIRON["LARGE"] "\n", "\n./" file "\n")
		read("./" file, large)
		state()
		split(holder, h, "@")
		over = gone ? "removed" : ended ? "done" : ""
		if (mode == "holder") {
			print later()
			print h[1] "\n" clean(h[2], "shown") "\n" shown(until) "\n" cut[order[m]] "\n" over
			exit
		}
		if (((ended || gone) && !all) || (mine && front["created_by"] != me && holder != me "@" on && holder != me "@")) continue
		sub(/\.md$/, "", file)
		title = front["title"] == "" ? file : front["title"]
		maker = front["created_by"] == "" ? "unknown" : clean(front["created_by"], "shown")
		i = order[m]
		w = m ? place[i] : made
		printf "%s\037%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", w, clean(match(file, "-" id6 "$") ? substr(file, RSTART + 1) : file, "shown"),
			clean(title, "shown"), maker, large ? "?" : m, shown(w), m ? author[i] : maker, h[1], over
	}
}'

case ${0##*/} in xfer.sh | xfer) xfer_main "$@" ;; esac
