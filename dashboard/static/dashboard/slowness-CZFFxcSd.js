function s(s,n){return[...n].flatMap(n=>n.slow_since[s]?[n.slow_since[s]]:[]).sort()[0]??null}function n(s){return Object.keys(s.slow_since).sort()}export{s as a,n as s};
