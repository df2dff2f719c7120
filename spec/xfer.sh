#!/bin/sh
# xfer.sh: takes part in an xfer tree with a POSIX shell and its usual tools (dash; busybox with its own applets).
#
#   sh xfer.sh send alice hello              as a command; `sh xfer.sh help` lists them
#   . ./xfer.sh; xfer_send alice hello       or sourced, by a script that is not itself called xfer or xfer.sh
#
# The text it follows is protocol.md; numbers in brackets are its sections. Bodies may hold any bytes and pass through no
# variable. A NUL in a header is not supported: shells drop it. Status: 0 done, 1 failed, 2 refused, 3 not there,
# 5 somebody else's, 6 done for some. Variables begin with _, so that none of them is another program's.

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
# For a script that is a Node itself: XFER_INSTANCE=$(xfer_instance); export XFER_INSTANCE; xfer_lock_acquire NAME || exit;
# xfer_lock_refresh NAME every 5 s (1: the lock is lost, acquire it anew); xfer_lock_release NAME at the end.
xfer_instance() (xfer_main instance)
xfer_lock_acquire() (xfer_main lock_acquire "$@")
xfer_lock_refresh() (xfer_main lock_refresh "$@")
xfer_lock_release() (xfer_main lock_release "$@")

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
		--as NAME: who acts (else $XFER_NODE, else the login name). send, reply: --subject S --kind K --expires 30m
		--priority urgent|normal|low; send: --key K --re ID. Words that begin with a dash come after --
	END
}

# Runs a command with the settings that all of them rely on, whatever those of the script around it are.
xfer_main() {
	set +Cefu
	_command=${1:-} _nl='
'
	IFS=" 	$_nl"
	case $_command in
	join | send | inbox | read | mark | reply | recall | live | doctor | instance | lock_acquire | lock_refresh | lock_release) shift ;;
	help | -h | --help) xfer_help && exit ;;
	*) xfer_help >&2 && exit 2 ;;
	esac
	_root=${XFER_HOME:-${HOME:-}/.xfer} _inst='' _state='' _stuck='' _large=''
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
	xfer_node "$_first" || ! { [ -e "$_dir" ] || [ -L "$_dir" ]; } || xfer_die 2 "$_dir is no Node and in the way (remove it, or choose another name)"
	xfer_make "$_dir"
	printf 'joined\t%s\n' "$_name"
}

# Delivers a copy to each recipient. Nothing is made before they were found good.
xfer_do_send() {
	xfer_args 'as= kind= subject= priority= expires= key= re=' "$@"
	IFS=,
	set -f
	# shellcheck disable=SC2086 # words are wanted
	set -- $_first
	set +f
	IFS=" 	$_nl"
	[ $# -gt 0 ] || xfer_die 2 "nobody to send to (xfer.sh send NAME the text)"
	xfer_me || : # made later
	_found='' _missing=''
	for _to; do
		if ! xfer_node "$_to"; then _missing="$_missing $_name"; else case " $_found " in *" $_name "*) ;; *) _found="$_found $_name" ;; esac; fi
	done
	for _to in $_missing; do
		[ -n "$_found" ] || xfer_die 3 "no Node '$_to' in $_root (to make it: xfer.sh join $_to)"
		printf "xfer: no Node '%s' in %s (to make it: xfer.sh join %s)\n" "$_to" "$_root" "$_to" >&2
	done
	xfer_clock $((14 * $# + 14))
	_kind=${_o_kind:-task} _re=$_o_re _thread='' _hops=''
	if [ ${#_re} -ge 4 ] && cd "$_home/cur" 2>/dev/null && cd .. && xfer_pick "$_re" new cur; then
		xfer_head "$_path"
		_re=$_picked _thread=${_h_thread:-$_picked}
	fi
	xfer_text "$_found"
	xfer_hand_off "$_found"
	_status=$?
	[ -z "$_missing" ] || [ $_status != 0 ] || _status=6
	exit $_status
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
		_date=''
		case $_id in [0-9]*.*) ;; *) _date=$(date -u -r "$_file" +%s 2>/dev/null) ;; esac
		head -c 70000 "$_file" 2>/dev/null | ID=$_id STATE=$_state awk -v mode=line -v all="$_o_all" -v now="$_now" -v mtime="$_date" "$xfer_awk"
	done | sort | cut -d "$(printf '\037')" -f 3 # the rank and the name go before
}

# Takes one and shows it, then marks it: what was not shown whole stays unread.
xfer_do_read() {
	trap '' PIPE # so that cat fails, and what it could not show goes back
	xfer_args 'as= take peek' "$@"
	xfer_enter
	xfer_clock 8
	[ -n "$_inst" ] || { xfer_digits && _inst=$_digits; }
	[ -z "$_first" ] || xfer_find "$_first"
	if [ -n "$_o_peek" ]; then
		[ -n "$_first" ] || xfer_oldest xfer_peek || xfer_nothing
		cat "$_path" && exit || xfer_die 1 "it could not be shown whole"
	fi
	case $_first:$_state in
	:*)
		xfer_mine
		xfer_return
		xfer_oldest xfer_take || xfer_nothing
		;;
	*:queued | *:taken)
		xfer_mine
		[ $_state = queued ] || [ "$_by" = "$_inst" ] || [ "$_end" -gt "$_now" ] || ! xfer_step "$_path" new || _state=queued
		[ $_state = queued ] || [ "$_by" = "$_inst" ] || xfer_die 5 "$_id is in somebody else's hand ($_by)"
		[ $_state = taken ] || xfer_step "$_path" take || xfer_die 5 "$_id was taken by somebody else just now"
		;;
	*)
		[ -z "$_o_take" ] || xfer_die 5 "$_id is $_state (to have it again: xfer.sh mark $_id new)"
		cat "$_path" && exit || xfer_die 1 "it could not be shown whole"
		;;
	esac
	if [ -n "$_o_take" ]; then
		printf '%s\n' "$_home/$_path" && exit
	elif cat "$_path"; then
		xfer_step "$_path" read || { xfer_pick "$_id" cur && xfer_split "$_path" && [ "$_by" = "$_inst" ] && xfer_step "$_path" read; } && exit
		xfer_die 5 "$_id was shown, but its lease had passed: it is, or was, somebody else's"
	fi
	xfer_step "$_path" new
	xfer_die 1 "$_id could not be shown whole: it is unread again"
}

# Ends, gives back or fails a Handoff. A failed one's sender is told.
xfer_do_mark() {
	xfer_args as= "$@"
	_step=${_words%% *} _why=${_words#"${_words%% *}"}
	case $_step in read | new | failed) ;; *) xfer_die 2 "what shall it be? (xfer.sh mark ID read, new or failed)" ;; esac
	xfer_enter
	xfer_clock 14
	xfer_find "$_first"
	xfer_mine
	xfer_in_hand
	xfer_head "$_path"
	_marked=$_id
	case $_step:$_path in new:new/*) ;; *) xfer_step "$_path" "$_step" || xfer_die 5 "$_id was moved by somebody else just now" ;; esac
	case $_step in new) printf 'queued\t%s\n' "$_id" ;; *) printf '%s\t%s\n' "$_step" "$_id" ;; esac
	case $_step:$_h_kind in failed:report) exit ;; failed:*) ;; *) exit ;; esac
	xfer_name "$_h_from" && xfer_node "$_name" || exit 0 # nobody to tell; the failure stands in the tree
	_kind=report _re=$_marked _thread=${_h_thread:-$_marked} _hops='' _body=${_why# } _spool=''
	_body=${_body:-failed, without a reason}
	xfer_hand_off "$_name" >/dev/null
}

# Answers the sender of a Handoff, then marks that one.
xfer_do_reply() {
	xfer_args 'as= kind= subject= priority= expires=' "$@"
	xfer_enter
	xfer_clock 28
	xfer_find "$_first"
	xfer_mine
	xfer_in_hand
	xfer_head "$_path"
	xfer_name "$_h_from" && xfer_node "$_name" || xfer_die 3 "the sender of $_id, '$_h_from', is no Node"
	case $_h_kind in answer | report) _kind=${_o_kind:-note} ;; *) _kind=${_o_kind:-answer} ;; esac
	_answered=$_path _re=$_id _thread=${_h_thread:-$_id} _hops=''
	[ -z "$_inst" ] || ! [ -e "live.lock/$_inst" ] || _hops=$((_h_hops + 1)) # an agent's, not a person's
	_to=$_name
	xfer_text "$_to"
	xfer_hand_off "$_to" || exit
	cd "$_home" || exit 1
	xfer_step "$_answered" answered || xfer_die 5 "the reply is sent, but $_re was moved by somebody else meanwhile"
}

# Takes back what was sent and nobody has taken.
xfer_do_recall() {
	xfer_args as= "$@"
	xfer_enter
	xfer_clock 0
	xfer_pick "$_first" sent || xfer_die 3 "$_me has sent no '$_first'"
	if [ -L "$_path" ]; then _to=$(readlink "$_path"); else read -r _to <"$_path"; fi
	_to=${_to#../../}
	xfer_name "$_to" && xfer_node "$_name" && cd "$_dir" && xfer_pick "$_picked" new cur || xfer_die 3 "$_picked is gone"
	xfer_split "$_path"
	[ $_state = queued ] && xfer_step "$_path" recalled || xfer_die 5 "too late to recall $_picked: $_name has it"
	printf 'recalled\t%s\n' "$_picked"
}

# What a reader sees in a file, as JSON; 1: with warnings.
xfer_do_doctor() {
	xfer_args json "$@"
	[ -n "$_o_json" ] && [ $_count = 1 ] || xfer_die 2 "doctor looks at one file (xfer.sh doctor --json FILE)"
	case $_first in -*) _first=./$_first ;; esac
	xfer_regular "$_first" && _size=$(wc -c <"$_first") || xfer_die 3 "no regular file '$_first' that can be read"
	head -c 70000 "$_first" | FILE=$_first awk -v mode=json -v size="$((_size))" "$xfer_awk"
}

# Is a Node while CMD runs: holds the live lock, says so in node.md, and ends when CMD ends or a signal says so.
xfer_do_live() {
	[ $# -gt 1 ] || xfer_die 2 "live takes a name and a command (xfer.sh live NAME CMD...)"
	xfer_clock 24
	xfer_lock "$1"
	shift
	xfer_acquire
	xfer_head "$_dir/node.md"
	if xfer_gone "$_h_host" "$_ns" "$_h_pid"; then (cd "$_dir" && xfer_return "$_h_instance"); fi
	{
		printf -- '---\nname: %s\ninstance: %s\nhost: %s\npid: %s\nagent: sh\nstatus: idle\nwake: none\n' "$_name" "$_inst" "$_host" "$_pid"
		printf 'since: %s\nstarted: %s\n---\n' "$_date" "$_date"
		! xfer_regular "$_dir/node.md" || tail -c "+$((_h_offset + 1))" "$_dir/node.md" # what it is for stays
	} >"$_dir/tmp/.node-$_inst" && mv -f "$_dir/tmp/.node-$_inst" "$_dir/node.md"

	(
		trap 'kill "$_sleep" 2>/dev/null; exit' TERM
		while :; do
			sleep "$_refresh" 2>/dev/null &
			_sleep=$!
			wait $_sleep
			! xfer_gone "$_host" "$_ns" "$_pid" || exit # killed without a chance to say so
			xfer_do_lock_refresh "$_name" || { printf 'xfer: the live lock of %s is lost (another may be %s now)\n' "$_name" "$_name" >&2 && exit; }
		done
	) </dev/null >/dev/null &
	_refresher=$! _child='' _again=''
	export XFER_NODE="$_name" XFER_INSTANCE="$_inst"
	umask "$_umask"
	if [ "$_locale" = unset ]; then unset LC_ALL; else LC_ALL=$_locale; fi
	trap 'xfer_pass HUP' HUP
	trap 'xfer_pass TERM' TERM
	trap 'xfer_pass TERM' INT # what a shell starts in the background ignores INT
	if [ -t 0 ]; then
		"$@" # in the foreground, for ^C to reach it; a TERM is looked at when it has ended
		_status=$?
	else
		{ "$@" <&9 9<&- & } 9<&0 # a shell takes standard input from what it starts in the background
		_child=$!
		while
			_again=''
			wait $_child
			_status=$?
			[ -n "$_again" ]
		do :; done
	fi
	trap '' HUP TERM INT
	kill $_refresher 2>/dev/null
	xfer_do_lock_release "$_name"
	exit $_status
}

# Passes a signal on to CMD, and has its end waited for again.
xfer_pass() {
	_again=1
	[ -z "$_child" ] || kill -s "$1" "$_child" 2>/dev/null
}

# A new instance, to be XFER_INSTANCE.
xfer_do_instance() {
	xfer_clock 8
	xfer_digits
	printf '%s\n' "$_digits"
}

# Acquires the live lock of a Node for the shell that sources this; 5: somebody else holds it.
xfer_do_lock_acquire() {
	# shellcheck disable=SC2016 # to be typed as it stands
	[ -n "$_inst" ] || xfer_die 2 'no instance (XFER_INSTANCE=$(xfer_instance); export XFER_INSTANCE)'
	xfer_clock 16
	xfer_lock "${1-}"
	xfer_acquire $$
}

# Refreshes the lock; 1: it is lost.
xfer_do_lock_refresh() {
	xfer_lock "${1-}"
	xfer_refresh
}

# Lets the name go.
xfer_do_lock_release() {
	xfer_lock "${1-}"
	xfer_release
}

# -- What the commands are made of --

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
	shift
	while [ $# -gt 0 ]; do
		_word=$1
		shift
		case $_verbatim$_word in
		--) _verbatim=1 && continue ;;
		-) _dash=1 && continue ;;
		-*)
			_name=${_word#--} _value=1
			_name=${_name%%=*}
			case $_name in *[!a-z]*) _name=- ;; esac
			case $_allowed:$_word in
			*" $_name= "*:*=*) _value=${_word#*=} ;;
			*" $_name= "*)
				[ $# -gt 0 ] || xfer_die 2 "--$_name needs a value"
				_value=$1
				shift
				;;
			*" $_name "*) ;;
			*) xfer_die 2 "no option $_word here (words that begin with a dash come after --; xfer.sh help lists the options)" ;;
			esac
			eval "_o_$_name=\$_value" && continue
			;;
		esac
		case $_count in 0) _first=$_word ;; 1) _words=$_word ;; *) _words="$_words $_word" ;; esac
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
	[ -d "$_dir" ] && ! [ -L "$_dir" ]
}

# Makes what the Node in $1 lacks, and its parents.
xfer_make() {
	[ -d "$1/tmp" ] && [ -d "$1/cur" ] && [ -d "$1/sent" ] && [ -d "$1/new" ] && return
	mkdir -p "$1/tmp" "$1/cur" "$1/sent" "$1/new" || xfer_die 1 "can't make $1 (a sandbox may forbid it: allow writing to $_root)"
	xfer_sync "$1" "$_root/nodes" "$_root" || : # a directory that can't be synced is no failure
}

# fsync of files and directories [9].
xfer_sync() {
	[ "${XFER_DURABILITY:-}" = none ] || ! command -v sync >/dev/null || sync "$@"
}

# Who acts: its name in _me, its directory in _home; 1: that is no Node yet.
xfer_me() {
	_me=${_o_as:-${XFER_NODE:-}}
	xfer_node "${_me:-$(id -un)}"
	_status=$? _me=$_name _home=$_dir
	return $_status
}

# Goes to the directory of the Node that acts. From there a Handoff is new/FILE or cur/FILE.
xfer_enter() {
	xfer_me || xfer_die 3 "no Node '$_me' in $_root (to make it: xfer.sh join $_me)"
	cd "$_home" || exit 1
}

# The time in _now (unix seconds) and _date, and $1 random bytes, as numbers, in _pool.
xfer_clock() {
	_bytes=$1
	# shellcheck disable=SC2046 # words are wanted
	set -- $(date -u '+%s %Y-%m-%dT%H:%M:%S.000Z' && { [ "$1" = 0 ] || od -An -v -tu1 -N"$1" /dev/urandom; })
	[ $# -eq $((_bytes + 2)) ] || xfer_die 1 "no random bytes (is /dev/urandom there?)"
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

# A new id in _new, for 14 bytes of the pool [4]. A shell has no microseconds: the digits after M are random.
xfer_id() {
	xfer_digits
	xfer_host
	# shellcheck disable=SC2086 # words are wanted
	set -- $_pool
	_new=$_now.M$(($1 % 10))$(($2 % 10))$(($3 % 10))$(($4 % 10))$(($5 % 10))$(($6 % 10))R$_digits.$_host
	case $_host in *[!A-Za-z0-9._-]*) _new=$(printf %s "$_new" | tr -c A-Za-z0-9._- _) ;; esac
	shift 6
	_pool=$*
}

# This host's name in _host.
xfer_host() {
	read -r _host 2>/dev/null </proc/sys/kernel/hostname || _host=$(uname -n)
}

# Only these are Handoffs; nothing else is ever opened.
xfer_regular() {
	[ -f "$1" ] && ! [ -L "$1" ]
}

# Takes the name of $1 apart [4]: _id; fields A (_a), E (_e), L (_l, until _end, by _by) and _more; _flags. Its _state.
xfer_split() {
	_id=${1##*/} _a='' _e='' _l='' _more='' _state=queued
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
	_end=0 _by=''
	case $_l in L=*.?*) _end=${_l#L=} && _end=${_end%%.*} && _by=${_l#*.} ;; esac
	case $_end in '' | *[!0-9]* | ?????????????*) _end=0 ;; esac # can't be read: it has passed
	[ "${1%%/*}" != new ] || return 0 # the directory is the stronger word
	if [ -n "$_e" ]; then _state=$_e; elif [ -n "$_l" ]; then _state=taken; else
		case $_flags in *R*) _state=answered ;; *S*) _state=read ;; *T*) _state=recalled ;; esac
	fi
}

# The one place that renames a Handoff [6]: $1 by step $2. Its new path in _path. 1: it is somebody else's by now, or stuck.
xfer_step() {
	xfer_split "$1"
	case $2 in
	take) _path=cur _add='' _drop=SRT _e='' _l=L=$((_now + _hold)).$_inst ;;
	new) _path=new _add='' _drop=SRT${_e:+F} _e='' _l='' ;;
	read) _path=cur _add=S _drop=${_e:+FT} _e='' _l='' ;;
	answered) _path=cur _add=RS _drop=${_e:+FT} _e='' _l='' ;;
	failed | unreadable) _path=cur _add=F _drop=SRT _e=$2 _l='' ;;
	recalled | expired | replaced) _path=cur _add=T _drop=SRF _e=$2 _l='' ;;
	esac
	if [ $_path = new ]; then
		case ${_a#A=} in '' | *[!0-9]* | ??????????*) _a=0 ;; esac
		_a=${_a#A=} && _a=${_a#"${_a%%[!0]*}"} && _a=A=$((${_a:-0} + 1)) # 08 would be octal
	fi
	_fields=${_a:+,$_a}${_e:+,E=$_e}${_l:+,$_l}
	[ -z "$_more" ] || _fields=,$(printf %s "${_fields#,}$_more" | tr , '\n' | sort -s -t= -k1,1 | tr '\n' ,) && _fields=${_fields%,}
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

# The file in the directories $2 whose id a person means by the piece $1: _path, and _picked, the id. 1: none.
xfer_pick() {
	_piece=${1%%[:\;,]*} _path='' _picked='' _best=0 _others=''
	[ ${#_piece} -ge 4 ] || xfer_die 2 "'$1' is too short for a piece of an id (4 characters or more)"
	case $_piece in */*) return 1 ;; esac
	for _in in $2; do
		for _file in "$_in"/*"$_piece"*; do
			case $_in in sent) [ -L "$_file" ] || [ -f "$_file" ] ;; *) xfer_regular "$_file" ;; esac || continue
			_id=${_file##*/} && _id=${_id%%[:\;,]*}
			case $_id in "$_piece") _rank=3 ;; *.M??????R"$_piece".*) _rank=2 ;; *"$_piece"*) _rank=1 ;; *) continue ;; esac
			if [ $_rank -gt $_best ]; then
				_best=$_rank _path=$_file _picked=$_id _others=''
			elif [ $_rank = $_best ] && [ "$_id" != "$_picked" ]; then _others="$_others $_id"; fi
		done
	done
	[ -z "$_others" ] || xfer_die 2 "'$1' fits $_picked$_others (say which)"
	[ -n "$_path" ]
}

# The Handoff that a person means by an id, or a worker by the path that `read --take` printed: split, at _path.
xfer_find() {
	_wanted=''
	case $1 in */*) xfer_split "cur/${1##*/}" && _wanted=$_by ;; esac
	if ! xfer_pick "${1##*/}" 'new cur'; then
		[ -z "$_wanted" ] || xfer_die 5 "'${1##*/}' is not in hand any more"
		xfer_die 3 "no Handoff '$1' in the Inbox of $_me (xfer.sh inbox --all lists them)"
	fi
	xfer_split "$_path"
}

# Refuses what another took: another instance than the path named, or than this one if it has a name.
xfer_in_hand() {
	[ -z "$_wanted" ] || [ "$_by" = "$_wanted" ] || xfer_die 5 "$_id is not in hand any more: its lease has passed"
	[ -n "$_wanted" ] || [ -z "$_inst" ] || [ "$_end" -le "$_now" ] || [ "$_by" = "$_inst" ] || xfer_die 5 "$_id is in somebody else's hand ($_by)"
}

# Refuses to mark where another instance is live.
xfer_mine() {
	xfer_make "$_home"
	! xfer_alive || [ "$_holder" = "$_inst" ] || xfer_die 5 "$_me is live (process $_pid_seen on $_host_seen) and reads its own mail (look with inbox or read --peek)"
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

# Takes $1 and leaves it in hand, unless it has ended by its own words, or is so large that it has to be asked for.
xfer_take() {
	_size=$(2>/dev/null wc -c <"$1")
	if [ "${_size:-0}" -gt "$_max" ]; then
		xfer_head "$1"
		[ $((_size - _h_offset)) -le "$_max" ] || { _large=$1 && return 1; }
	fi
	xfer_step "$1" take || return 1
	_taken=$_path
	[ -r "$_path" ] || { xfer_step "$_path" unreadable && return 1; }
	xfer_head "$_path"
	if [ -n "$_h_expires" ] && [ "$_h_expires" -le "$_now" ]; then xfer_step "$_path" expired; return 1; fi
	[ -n "$_h_key" ] || return 0
	_own=$_id
	xfer_same_key "$_h_from" "$_h_key"
	if [ "$_top" \> "$_own" ]; then xfer_step "$_taken" replaced; return 1; fi
	xfer_split "$_taken"
	_path=$_taken
}

# As xfer_take, for who only looks.
xfer_peek() {
	xfer_head "$1"
	_path=$1
	[ -z "$_h_expires" ] || [ "$_h_expires" -gt "$_now" ]
}

# Says why there was nothing to read.
xfer_nothing() {
	[ -z "$_stuck" ] || xfer_die 1 "can't move $_home/$_stuck (is the tree writable?)"
	[ -z "$_large" ] || xfer_die 3 "nothing to read for $_me but ${_large##*/}, of more than $_max bytes (xfer.sh read ${_large##*/})"
	xfer_die 3 "nothing to read for $_me in $_root"
}

# The highest id in new/ from $1 with the key $2, in _top. Replaces those below the id $3.
xfer_same_key() {
	_top='' _from=$1 _key=$2
	for _other in new/*; do
		xfer_regular "$_other" || continue
		xfer_head "$_other"
		[ "$_h_from:$_h_key" = "$_from:$_key" ] || continue
		_top=${_other##*/} && _top=${_top%%[:\;,]*}
		# shellcheck disable=SC3012 # dash and busybox have \<, and so has POSIX since 2024
		if [ "$_top" \< "${3:-}" ]; then xfer_step "$_other" replaced; fi
	done
}

# What the header of $1 says, fit for showing, in _h_from and so on; of what is not there or no regular file, nothing.
xfer_head() {
	for _field in from kind expires key thread hops offset instance status host pid; do IFS='' read -r "_h_$_field"; done <<-END
		$(! xfer_regular "$1" || head -c 70000 "$1" 2>/dev/null | awk -v mode=fields "$xfer_awk")
	END
}

# The text to hand off to the Nodes $1: words in _body, or standard input in the file _spool. Checks the options that go with it.
xfer_text() {
	# shellcheck disable=SC2086 # words are wanted
	set -- $1
	case $_o_priority in '' | urgent | normal | low) ;; *) xfer_die 2 "--priority is urgent, normal or low" ;; esac
	_expires=''
	if [ -n "$_o_expires" ]; then
		_count_of=${_o_expires%[smhd]}
		case $_count_of:$_o_expires in *[!0-9]*:* | ?????????*:* | :* | *:*[0-9]) xfer_die 2 "--expires takes a duration (30s, 10m, 2h, 7d)" ;; esac
		_expires=$(awk -v mode=expires -v now="$_now" -v duration="$_o_expires" "$xfer_awk")
	fi
	_body='' _spool=''
	if [ -z "$_dash" ] && [ $_count -gt 1 ]; then
		_body=$_words
		[ -n "$_body" ] || xfer_die 2 "nothing to send: the text is empty"
		[ ${#_body} -le "$_max" ] || xfer_die 2 "the text is ${#_body} bytes, the limit is $_max (XFER_MAX_BYTES)"
		return
	fi
	[ ! -t 0 ] || xfer_die 2 "the text is missing (give words, or pipe it in)"
	[ -z "$_words" ] || [ -z "$_o_subject" ] || xfer_die 2 "two subjects (with - the words are the subject)"
	_o_subject=$_o_subject$_words
	xfer_id
	xfer_make "$_root/nodes/$1"
	_spool=$_root/nodes/$1/tmp/$_new.in
	head -c $((_max + 1)) >"$_spool" || { rm -f "$_spool" && xfer_die 1 "can't write $_spool"; }
	_size=$(($(wc -c <"$_spool")))
	[ $_size -gt 0 ] && [ $_size -le "$_max" ] && return
	rm -f "$_spool"
	[ $_size -gt 0 ] || xfer_die 2 "nothing to send: the text is empty"
	xfer_die 2 "the text is $_size bytes or more, the limit is $_max (XFER_MAX_BYTES)"
}

# Delivers the text with _kind, _re, _thread, _hops and the options to the Nodes $1. 1: to none of them; 6: not to all.
xfer_hand_off() {
	# shellcheck disable=SC2086 # words are wanted
	set -- $1
	xfer_make "$_home"
	_to='' _sent=0
	for _name; do _to=$_to${_to:+, }$_name; done
	[ $# = 1 ] || _to="[$_to]"
	for _name; do
		cd "$_root/nodes/$_name" && xfer_make "$_root/nodes/$_name" || continue
		xfer_presence
		xfer_id
		if [ -n "$_o_key" ]; then
			xfer_same_key "$_me" "$_o_key"
			# Random digits may sort below one that was sent before in this second: the next second sorts above it.
			case $_top in "$_now".*) sleep 1 && xfer_clock $((14 * $#)) && xfer_id ;; esac
		fi
		[ $# = 1 ] || [ -n "$_thread" ] || _thread=$_new # what the copies have in common
		_header=---$_nl
		xfer_field from "$_me"
		_header="${_header}to: $_to$_nl"
		xfer_field kind "$_kind"
		xfer_field subject "$_o_subject"
		_header="${_header}date: $_date$_nl"
		xfer_field re "$_re"
		xfer_field thread "$_thread"
		xfer_field priority "$_o_priority"
		xfer_field expires "$_expires"
		xfer_field key "$_o_key"
		xfer_field hops "$_hops"
		xfer_field instance "$_inst"
		_header=$_header---$_nl
		[ ${#_header} -le 65536 ] || xfer_die 2 "the header is ${#_header} bytes, the limit is 65536 (the text belongs into the body)"
		if ! xfer_deliver; then printf "xfer: not delivered to %s (is there space, and is %s writable?)\n" "$_name" "$PWD" >&2 && continue; fi
		_sent=$((_sent + 1))
		printf 'queued for %s (%s)\t%s\n' "$_name" "$_presence" "$_new"
		[ -z "$_o_key" ] || xfer_same_key "$_me" "$_o_key" "$_new"
	done
	[ -z "$_spool" ] || rm -f "$_spool"
	[ $_sent = $# ] || return $((_sent ? 6 : 1))
}

# The one place that delivers [6], to the directory it is in. Killed at any point it leaves a file in tmp/, or the Handoff. 1: nothing delivered.
xfer_deliver() {
	set -C # never write to what is there
	{ printf %s "$_header$_body" && { [ -z "$_spool" ] || cat "$_spool"; }; } >"tmp/$_new" && set +C && xfer_sync "tmp/$_new" && mv -f "tmp/$_new" "new/$_new" || {
		set +C
		rm -f "tmp/$_new"
		return 1
	}
	xfer_sync new || : # it is delivered, and must not be sent again for this
	ln -s "../../$_name" "$_home/sent/$_new" 2>/dev/null || printf '%s\n' "../../$_name" 2>/dev/null >"$_home/sent/$_new" || :
}

# Adds a line to _header, verbatim where a shell may do so, else as a JSON string [5].
xfer_field() {
	_value=$2
	case $_value in
	'') return ;;
	*[!\ -~]* | [\"\[\ ]* | *\ ) _value=$(VALUE=$_value awk -v mode=quote "$xfer_awk") ;;
	esac
	_header=$_header$1:\ $_value$_nl
}

# Who is there, in the words of a receipt, in _presence.
xfer_presence() {
	_presence=away
	if xfer_alive; then
		xfer_head node.md
		_presence="live${_h_status:+, $_h_status}"
	elif xfer_regular node.md && _age=$(date -r node.md +%s 2>/dev/null); then
		_age=$((_now - _age))
		if [ $_age -lt 60 ]; then _age="$((_age < 0 ? 0 : _age)) s"; elif [ $_age -lt 3600 ]; then _age="$((_age / 60)) min"; elif [ $_age -lt 172800 ]; then _age="$((_age / 3600)) h"; else _age="$((_age / 86400)) d"; fi
		_presence="away, last seen $_age ago"
	fi
}

# Whether somebody is live on the Node of this directory, at one look: the instance in _holder.
xfer_alive() {
	for _lock_file in live.lock/*; do
		xfer_regular "$_lock_file" || continue
		! xfer_dead "$_lock_file" || continue
		_probe=tmp/.now-$$ # the filesystem's clock
		true 2>/dev/null >"$_probe"
		xfer_age "$_lock_file" "$_probe" || continue
		rm -f "$_probe"
		[ $_age -ge $((_stale + _refresh)) ] || { _holder=${_lock_file##*/} && return; }
	done
	return 1
}

# Whether the process that made the lock file $1 is known to be dead. What the file says in _host_seen, _ns_seen, _pid_seen.
xfer_dead() {
	_host_seen='' _ns_seen='' _pid_seen=''
	read -r _host_seen _ns_seen _pid_seen 2>/dev/null <"$1" || :
	xfer_gone "$_host_seen" "$_ns_seen" "$_pid_seen"
}

# Whether the process $3 of host $1 and pid namespace $2 is known to be gone. A zombie is: its parent may never ask for it.
xfer_gone() {
	[ -n "${_ns:-}" ] || { xfer_host && _ns=$(readlink /proc/self/ns/pid 2>/dev/null) || _ns=-; }
	[ "$1 $2" = "$_host $_ns" ] && [ "$_ns" != - ] || return 1
	case $3 in '' | 0* | *[!0-9]*) return 1 ;; esac
	kill -0 "$3" 2>/dev/null || { [ ! -e "/proc/$3" ] && return; }
	_stat=''
	read -r _stat 2>/dev/null <"/proc/$3/stat" || :
	case $_stat in *') Z '* | *') X '*) ;; *) return 1 ;; esac
}

# How many seconds before $2 the file $1 was refreshed, in _age, and when, in _refreshed. 1: it is gone.
xfer_age() {
	_refreshed=$(date -r "$1" +%s 2>/dev/null) && _age=$(date -r "$2" +%s 2>/dev/null || date +%s) && _age=$((_age - _refreshed))
}

# Gets ready for the lock functions: the lock of Node $1 in _lock, this instance's file in _own.
xfer_lock() {
	xfer_node "$1" || { case $_command in lock_re*) false ;; esac && xfer_make "$_dir"; } || xfer_die 3 "no Node '$_name'"
	[ -n "$_inst" ] || { xfer_digits && _inst=$_digits; }
	_lock=$_dir/live.lock _own=$_dir/live.lock/$_inst
}

# Acquires the live lock [7] for the process $1, or says who holds it and ends with 5.
xfer_acquire() {
	_pid=$1 _seen=' ' _tries=0
	xfer_gone - - - || : # makes _host and _ns
	while :; do
		mkdir "$_lock" 2>/dev/null
		if ! (set -C && printf '%s %s %s\n' "$_host" "$_ns" "$_pid" >"$_own") 2>/dev/null; then
			[ ! -e "$_own" ] || xfer_die 5 "$_name is live, held by this instance ($_inst)"
			[ $((_tries += 1)) -lt 20 ] || xfer_die 1 "can't write $_lock (is the tree writable?)"
			continue # a holder that left took the directory with it
		fi
		_list=again _busy='' _watch=''
		while [ -n "$_list" ]; do
			_list=''
			for _file in "$_lock"/*; do
				[ "$_file" != "$_own" ] && xfer_regular "$_file" || continue
				if xfer_dead "$_file"; then rm -f "$_file" && _list=again && continue; fi
				xfer_age "$_file" "$_own" || continue
				_mark=${_file##*/}:$_refreshed
				if [ $_age -lt "$_stale" ]; then
					_busy="process $_pid_seen on $_host_seen" _busy_age=$_age
				else
					case $_seen in *" $_mark "*) rm -f "$_file" && _list=again ;; *) _watch="$_watch$_mark " ;; esac
				fi
			done
		done
		[ -n "$_busy$_watch" ] || [ ! -e "$_own" ] || return 0
		xfer_release
		if [ -n "$_busy" ]; then
			# One that has been there for longer than a moment holds it; another is trying too.
			[ "$_busy_age" -lt 2 ] && [ $((_tries += 1)) -lt 12 ] || xfer_die 5 "$_name is live, held by $_busy (choose another name, or end that one)"
			_byte=${_pool%% *} && _pool="${_pool#* } $_byte"
			sleep "0.$((_byte % 4))$((_byte % 10))" 2>/dev/null || sleep 1
		else
			sleep "$_stale" # seen as stale once: seen so again, it is
			_seen=$_seen$_watch
		fi
	done
}

# Refreshes the lock, never making it anew; 1: it is lost [7].
xfer_refresh() {
	touch -c "$_own" 2>/dev/null
	[ -e "$_own" ]
}

# Lets the name go. Another's lock stays.
xfer_release() {
	rm -f "$_own"
	rmdir "$_lock" 2>/dev/null || :
}

# Reads the first 70,000 bytes of a Handoff, linear in their number. Modes: fields (a line each, for xfer_head), line (for inbox), json (for
# doctor); and of no input: quote (a header value), expires (the date in a while).
xfer_awk='
function trim(s) { gsub(/^[ \t]+|[ \t]+$/, "", s); return s }
function is_json(s) { return s ~ /^"([^"\\\001-\037]|\\["\\\/bfnrt]|\\u[0-9A-Fa-f][0-9A-Fa-f][0-9A-Fa-f][0-9A-Fa-f])*"$/ }
# s as UTF-8, what is none as U+FFFD (sets bad); in a "json" string and to be "shown", controls are escaped (sets escaped)
function clean(s, how,   o, i, k, t, c, u) {
	for (i = 1; i <= length(s); i += k) {
		t = substr(s, i, 64)
		c = substr(t, 1, 1)
		k = 1
		if (match(t, /^[]!#-[^-~ ]+/)) { k = RLENGTH; o = o substr(t, 1, k); continue }
		if (ord[c] < 128) u = ord[c]
		else if (match(t, utf8)) {
			k = RLENGTH
			c = substr(t, 1, k)
			u = k == 2 ? (ord[substr(c, 1, 1)] - 192) * 64 + ord[substr(c, 2, 1)] - 128 : 160
			if (how == "json" && c ~ /^(\342\200[\250-\256]|\342\201[\246-\251]|\357\273\277)/) u = (ord[substr(c, 1, 1)] - 224) * 4096 + (ord[substr(c, 2, 1)] - 128) * 64 + ord[substr(c, 3, 1)] - 128
		} else { k = match(t, cut) ? RLENGTH : 1; c = "\357\277\275"; u = 160; bad = 1 }
		if (how == "json" && (c == "\"" || c == "\\")) c = "\\" c
		else if (how != "" && (u < 32 || (u > 126 && u < 160) || u > 8000)) { c = sprintf(how == "json" ? "\\u%04x" : "\\x%02x", u); escaped = 1 }
		o = o c
	}
	return o
}
function quote(s) { return "\"" clean(s, "json") "\"" }
function hex(s,   i, n) { for (i = 1; i <= 4; i++) n = n * 16 + index("0123456789abcdef", tolower(substr(s, i, 1))) - 1; return n }
function encode(u) {
	if (u == 0) return "\\x00" # only for showing, and awk may end a string here
	if (u < 128) return chr[u]
	if (u < 2048) return chr[192 + int(u / 64)] chr[128 + u % 64]
	if (u < 65536) return chr[224 + int(u / 4096)] chr[128 + int(u / 64) % 64] chr[128 + u % 64]
	return chr[240 + int(u / 262144)] chr[128 + int(u / 4096) % 64] chr[128 + int(u / 64) % 64] chr[128 + u % 64]
}
# what the JSON string s says; or s itself, with half surrogate pairs made whole
function string(s, raw,   o, i, c, u, v) {
	if (raw) o = "\""
	s = substr(s, 2, length(s) - 2)
	while (i = index(s, "\\")) {
		o = o substr(s, 1, i - 1)
		c = substr(s, i, 2)
		if (c == "\\u") {
			c = substr(s, i, 6)
			u = hex(substr(c, 3))
			v = substr(s, i + 6, 6) ~ /^\\u[dD][c-fC-F]/ ? hex(substr(s, i + 8, 4)) : 0
			if (u >= 55296 && u < 56320 && v) { c = substr(s, i, 12); u = (u - 55296) * 1024 + v + 9216 }
			else if (u >= 55296 && u < 57344) { c = "\\ufffd"; u = 65533 }
			o = o (raw ? c : encode(u))
		} else o = o (raw ? c : (substr(c, 2) in escape ? escape[substr(c, 2)] : substr(c, 2)))
		s = substr(s, i + length(c))
	}
	return o s (raw ? "\"" : "")
}
# a list as JSON, or nothing when it is none
function list(s,   o, t) {
	while (match(s, /^("([^"\\]|\\.)*"|[^][",])+/)) {
		t = trim(substr(s, 1, RLENGTH))
		s = substr(s, RLENGTH + 1)
		if (t == "" || t == "\"\"" || (t ~ /"/ && !is_json(t)) || s !~ /^(,.|$)/) return ""
		o = o (o == "" ? "[" : ",") (t ~ /^"/ ? clean(string(t, 1)) : quote(t))
		if (s == "") return o "]"
		s = substr(s, 2)
	}
	return ""
}
function days(y, m, d) { y -= m < 3; m += m < 3 ? 9 : -3; return y * 365 + int(y / 4) - int(y / 100) + int(y / 400) + int((m * 153 + 2) / 5) + d - 719469 }
# unix seconds of an RFC 3339 date in UTC, or nothing
function epoch(s,   y, m, d, last) {
	if (s !~ /^[0-9][0-9][0-9][0-9]-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9](\.[0-9]+)?Z$/ || length(s) > 30) return ""
	y = substr(s, 1, 4) + 0; m = substr(s, 6, 2) + 0; d = substr(s, 9, 2) + 0
	last = m == 2 ? 28 + (y % 4 == 0 && (y % 100 || y % 400 == 0)) : 30 + (m + int(m / 8)) % 2
	if (m < 1 || m > 12 || d < 1 || d > last || substr(s, 12, 2) > 23) return ""
	return days(y, m, d) * 86400 + substr(s, 12, 2) * 3600 + substr(s, 15, 2) * 60 + substr(s, 18, 2)
}
function date(t,   n, y, m) {
	n = int(t / 86400); t -= n * 86400
	y = 1970 + int(n / 365.2425) + 1
	while (days(y, 1, 1) > n) y--
	m = 12
	while (days(y, m, 1) > n) m--
	return sprintf("%04d-%02d-%02dT%02d:%02d:%02d.000Z", y, m, n - days(y, m, 1) + 1, int(t / 3600), int(t / 60) % 60, t % 60)
}
function warn(code) { if (!(code in warned)) { warned[code] = 1; warnings = warnings (warnings == "" ? "" : ",") quote(code) } }
function fence(s) { return s == "---" || (s == "---\r" && at <= size) }
function field(key, value, json) {
	if (value == "") return
	if (key in shown) { warn("duplicate"); return }
	shown[key] = clean(value, "shown")
	fields = fields (fields == "" ? "" : ",") quote(key) ":" json
}
function header(s,   key, json) {
	sub(/\r$/, "", s)
	if (!match(s, /^[A-Za-z_][A-Za-z0-9_-]*:/) || substr(s, RLENGTH + 1) !~ /^([ \t]|$)/) { warn("line"); return }
	key = tolower(substr(s, 1, RLENGTH - 1))
	s = trim(substr(s, RLENGTH + 1))
	if (key == "to" && s ~ /^\[.*\]$/ && (json = list(substr(s, 2, length(s) - 2))) != "") field(key, s, json)
	else if (s ~ /^"/ && is_json(s)) field(key, string(s, 0), clean(string(s, 1)))
	else field(key, s, quote(s))
}
BEGIN {
	for (i = 1; i < 256; i++) { chr[i] = sprintf("%c", i); ord[chr[i]] = i }
	escape["b"] = "\b"; escape["f"] = "\f"; escape["n"] = "\n"; escape["r"] = "\r"; escape["t"] = "\t"
	utf8 = "^([\302-\337][\200-\277]|\340[\240-\277][\200-\277]|[\341-\354\356\357][\200-\277][\200-\277]|\355[\200-\237][\200-\277]|\360[\220-\277][\200-\277][\200-\277]|[\361-\363][\200-\277][\200-\277][\200-\277]|\364[\200-\217][\200-\277][\200-\277])"
	cut = "^(\340[\240-\277]|[\341-\354\356\357][\200-\277]|\355[\200-\237]|\360[\220-\277][\200-\277]?|[\361-\363][\200-\277][\200-\277]?|\364[\200-\217][\200-\277]?)"
	if (size == "") size = 1e15
	if (mode == "quote") {
		s = ENVIRON["VALUE"]
		t = quote(s)
		print (escaped || s ~ /^["\[ ]/ || s ~ / $/) ? t : clean(s)
	}
	if (mode == "expires") print date(now + duration * (duration ~ /s$/ ? 1 : duration ~ /m$/ ? 60 : duration ~ /h$/ ? 3600 : 86400))
	if (mode == "quote" || mode == "expires") exit
}
{ at += length($0) + 1 }
NR == 1 { open = fence($0); if (!open && substr($0, 1, 3) == "\357\273\277" && fence(substr($0, 4))) warn("bom") }
NR > 1 && open && fence($0) && at - (at > size) <= 65536 { open = 0; offset = at > size ? size : at; next }
open && NR > 1 { lines[++n] = $0 }
!open && top == "" && at - length($0) - offset < 4096 { top = $0; gsub(/^[ \t\r\f\v]+|[ \t\r\f\v]+$/, "", top); top = substr(top, 1, 200) }
END {
	if (mode == "quote" || mode == "expires") exit
	if (open) { warn("unclosed"); top = "---" }
	if (offset) {
		for (i = 1; i <= n; i++) { bad = 0; clean(lines[i]); if (bad) { warn("utf8"); break } }
		for (i = 1; i <= n; i++) header(lines[i])
		if (("date" in shown && epoch(shown["date"]) == "") || ("expires" in shown && epoch(shown["expires"]) == "")) warn("date")
		if ("hops" in shown && (shown["hops"] !~ /^[0-9]+$/ || length(shown["hops"]) > 9)) warn("number")
	}
	if (mode == "json") {
		printf "{\"schema\":\"xfer.doctor/1\",\"findings\":[],\"files\":[{\"file\":%s,\"header\":%s,\"fields\":{%s},\"body\":{\"offset\":%d,\"bytes\":%d},\"warnings\":[%s]}]}\n", quote(ENVIRON["FILE"]), offset ? "true" : "false", fields, offset, size - offset, warnings
		exit (warnings != "")
	}
	expires = "expires" in shown ? epoch(shown["expires"]) : ""
	from = "from" in shown ? shown["from"] : "unknown"
	kind = "kind" in shown ? shown["kind"] : "task"
	if (mode == "fields") {
		print from; print kind; print expires; print shown["key"]; print shown["thread"]
		print (("hops" in shown) && !("number" in warned)) ? shown["hops"] + 0 : 0
		print offset + 0; print shown["instance"]; print shown["status"]; print shown["host"]; print shown["pid"]
		exit
	}
	id = ENVIRON["ID"]; state = ENVIRON["STATE"]
	if (state == "queued" && expires != "" && expires <= now) state = "expired"
	rank = state == "queued" ? 0 : state == "taken" ? 1 : state == "failed" || state == "unreadable" ? 2 : 3
	if (rank == 3 && !all) exit
	t = shown["date"]
	if (epoch(t) != "") t = substr(t, 1, 19) "." substr((length(t) > 20 ? substr(t, 21, length(t) - 21) : "") "000", 1, 3) "Z"
	else t = date(id ~ /^[0-9]+\./ ? id + 0 : mtime)
	printf "%d\037%s\037%s\t%s\t%s\t%s\t%s\t%s\n", rank, id, clean(id, "shown"), t, clean(state, "shown"), kind, from, "subject" in shown ? shown["subject"] : clean(top, "shown")
}'

case ${0##*/} in xfer.sh | xfer) xfer_main "$@" ;; esac
