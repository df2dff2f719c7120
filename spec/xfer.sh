#!/bin/sh
# xfer.sh: takes part in an xfer tree with a POSIX shell and its usual tools (dash; busybox with its own applets).
#
#   sh xfer.sh send alice hello              as a command; `sh xfer.sh help` lists them
#   . ./xfer.sh; xfer_send alice hello       or sourced, by a script that is not itself called xfer or xfer.sh
#
# The text it follows is protocol.md; numbers in brackets are its sections. Bodies hold any bytes and pass through no
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
	join | send | inbox | read | mark | reply | recall | live | doctor | instance | lock) shift ;;
	help | -h | --help) xfer_help && exit ;;
	*) xfer_help >&2 && exit 2 ;;
	esac
	_root=${XFER_HOME:-${HOME:-}/.xfer} _inst='' _stuck='' _large=''
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
	xfer_node "$_first" || [ ! -e "$_dir" ] && [ ! -L "$_dir" ] || xfer_die 2 "$_dir is no Node and in the way (remove it, or choose another name)"
	xfer_make "$_dir"
	printf 'joined\t%s\n' "$_name"
}

# Delivers a copy to each recipient. Nothing is made before one was found good.
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
		if ! xfer_node "$_to"; then _missing="$_missing $_name"; else case "$_found " in *" $_name "*) ;; *) _found="$_found $_name" ;; esac; fi
	done
	for _to in $_missing; do
		[ -n "$_found" ] || xfer_die 3 "no Node '$_to' in $_root (to make it: xfer.sh join $_to)"
		printf "xfer: no Node '%s' in %s (to make it: xfer.sh join %s)\n" "$_to" "$_root" "$_to" >&2
	done
	xfer_clock $((14 * $# + 14))
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
	xfer_name_instance
	if [ -n "$_o_peek" ]; then
		if [ -n "$_first" ]; then xfer_find "$_first"; else xfer_oldest xfer_peek || xfer_nothing; fi
		cat "$_path"
		exit
	fi
	xfer_mine
	xfer_return
	if [ -n "$_first" ]; then xfer_find "$_first"; else xfer_oldest xfer_take || xfer_nothing; fi
	case $_state:$_by in
	taken:"$_inst") ;;
	queued:*) xfer_take "$_path" || xfer_die 5 "$_id was taken by somebody else just now, or has expired" ;;
	taken:*) xfer_die 5 "$_id is in somebody else's hand ($_by)" ;;
	*)
		[ -z "$_o_take" ] || xfer_die 5 "$_id is $_state (to have it again: xfer.sh mark $_id new)"
		cat "$_path"
		exit
		;;
	esac
	if [ -n "$_o_take" ]; then
		printf '%s\n' "$_home/$_path" && exit
	elif cat "$_path"; then
		xfer_step "$_path" read || { xfer_find "cur/$_id,L=1.$_inst" && xfer_in_hand && xfer_step "$_path" read; } && exit
		xfer_die 5 "$_id was shown, but its lease had passed: it is, or was, somebody else's"
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
	xfer_clock 14
	xfer_mine
	xfer_find "$_first"
	xfer_in_hand
	xfer_head "$_path"
	case $_step:$_path in new:new/*) ;; *) xfer_step "$_path" "$_step" || xfer_die 5 "$_id was moved by somebody else just now" ;; esac
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
	xfer_clock 28
	xfer_mine
	xfer_find "$_first"
	xfer_in_hand
	xfer_head "$_path"
	case $_h_kind in answer | report) _kind=note ;; *) _kind=answer ;; esac
	_hops=''
	[ -z "$_inst" ] || [ ! -e "live.lock/$_inst" ] || _hops=$((_h_hops + 1)) # an agent answers, not a person
	xfer_name "$_h_from" && xfer_node "$_name" || xfer_die 3 "the sender of $_id, '$_h_from', is no Node"
	_answered=$_path _re=$_id
	xfer_text "$_name"
	xfer_hand_off "$_name" "${_o_kind:-$_kind}" "$_re" "${_h_thread:-$_re}" "$_hops" || exit
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
	xfer_name "${_to#../../}" && xfer_node "$_name" && cd "$_dir" && xfer_pick "$_picked" 'new cur' || xfer_die 3 "$_picked is gone"
	xfer_split "$_path"
	[ "$_state" = queued ] && xfer_step "$_path" recalled || xfer_die 5 "too late to recall $_picked: $_name has it"
	printf 'recalled\t%s\n' "$_picked"
}

# What a reader sees in a file, as JSON; 1: with warnings.
xfer_do_doctor() {
	xfer_args json "$@"
	[ -n "$_o_json" ] && [ $_count = 1 ] || xfer_die 2 "doctor looks at one file (xfer.sh doctor --json FILE)"
	xfer_regular "$_first" && _size=$(wc -c <"$_first") || xfer_die 3 "no regular file '$_first' that can be read"
	head -c 70000 <"$_first" | FILE=$_first awk -v mode=json -v size="$((_size))" "$xfer_awk"
}

# A new instance, to be XFER_INSTANCE.
xfer_do_instance() {
	_inst=''
	xfer_clock 8
	xfer_name_instance
	printf '%s\n' "$_inst"
}

# The live lock for the shell that sources this: $$ is its pid, here too. 1: lost. 5: somebody else holds it.
xfer_do_lock() {
	# shellcheck disable=SC2016 # to be typed as it stands
	[ -n "$_inst" ] || xfer_die 2 'no instance (XFER_INSTANCE=$(xfer_instance); export XFER_INSTANCE)'
	xfer_lock "${2-}"
	case $1 in
	acquire) xfer_make "$_dir" && xfer_acquire $$ ;;
	refresh) xfer_refresh ;;
	release) xfer_release ;;
	esac
}

# Is a Node while CMD runs: holds the live lock and says so in node.md, until CMD ends or a signal ends it.
xfer_do_live() {
	[ $# -gt 1 ] || xfer_die 2 "live takes a name and a command (xfer.sh live NAME CMD...)"
	xfer_clock 8
	xfer_name_instance
	xfer_lock "$1"
	shift
	xfer_make "$_dir"
	xfer_acquire "$(exec sh -c 'echo $PPID')" # $$ may be a shell that sourced this, and lives on
	xfer_head "$_dir/node.md"
	if xfer_gone "$_h_host" "$_ns" "$_h_pid"; then (cd "$_dir" && xfer_return "$_h_instance"); fi
	{
		printf -- '---\nname: %s\ninstance: %s\nhost: %s\npid: %s\nagent: sh\nstatus: idle\nwake: none\n' "$_name" "$_inst" "$_host" "$_pid"
		printf 'since: %s\nstarted: %s\n---\n' "$_date" "$_date"
		! xfer_regular "$_dir/node.md" || tail -c "+$((_h_offset + 1))" "$_dir/node.md" # what it is for
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
		while _again='' && wait $_child || _status=$? && [ -n "$_again" ]; do :; done
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

# An instance in _inst, if the environment gave none, for 8 bytes of the pool.
xfer_name_instance() {
	[ -n "$_inst" ] || { xfer_digits && _inst=$_digits; }
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
	[ -f "$1" ] && [ ! -L "$1" ]
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
		case $_flags in *R*) _state=answered ;; *S*) _state=read ;; *T*) _state=recalled ;; esac
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
	[ -z "$_more" ] || _fields=,$(printf %s "${_fields#,}$_more" | tr , '\n' | sort -s -t= -k1,1 | tr '\n' ,) && _fields=${_fields%,}
	_set=''
	for _flag in F R S T; do
		case $_add:$_drop:$_flags in *$_flag*:*:* | *:*:*$_flag*) case $_add::$_drop in [!$_flag]*:*$_flag* | :*$_flag*) ;; *) _set=$_set$_flag ;; esac ;; esac
	done
	case $_flags in *[!FRST]*) _set=$(printf %s "$_set$(printf %s "$_flags" | tr -d FRST)" | fold -b -w 1 | sort -u | tr -d '\n') ;; esac
	case $_path$_set in new) _path=new/$_id$_fields ;; *) _path=$_path/$_id$_fields:2,$_set ;; esac
	[ "$_path" != "$1" ] || return 0
	[ ! -d "$_path" ] && mv -f "$1" "$_path" 2>/dev/null && return # mv would move it into a directory
	[ ! -f "$1" ] || _stuck=$1
	return 1
}
